"""
A piece of music, taken apart
=============================

The spectrogram of a melody is a matrix: frequencies times frames. Its components are notes: a template each, and when
it sounds. A mask made from them separates the notes, and they can be listened to.
"""

import base64
import io

import matplotlib.pyplot as plt
import numpy as np
from scipy.io import wavfile
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann

import enmf

# %%
# Four notes with overtones, struck again and again for five seconds.

RATE = 8000
rng = np.random.default_rng(0)
PITCHES = (262.0, 330.0, 392.0, 523.0)


def note(pitch):
    time = np.arange(int(0.9 * RATE)) / RATE
    return sum(0.6**k * np.sin(2 * np.pi * k * pitch * time) for k in range(1, 6)) * np.exp(-4 * time)


sound = 1e-3 * rng.standard_normal(6 * RATE)
for beat in range(20):
    for pitch in rng.choice(PITCHES, rng.integers(1, 3), replace=False):
        start = int(0.25 * beat * RATE)
        sound[start : start + int(0.9 * RATE)] += note(pitch)


class Sound:
    """A player in the page."""

    def __init__(self, samples):
        scaled = np.clip(samples / np.abs(samples).max(), -1, 1)
        file = io.BytesIO()
        wavfile.write(file, RATE, np.uint8(127.5 + 120 * scaled))
        self.data = base64.b64encode(file.getvalue()).decode()

    def _repr_html_(self):
        return f'<audio controls src="data:audio/wav;base64,{self.data}"></audio>'


Sound(sound)

# %%
# Frames are rows here (samples), frequencies are columns. Least squares on magnitudes finds what is loud, which is
# enough for these four notes. On recordings with loud and quiet parts, Kullback-Leibler or (on power spectra)
# Itakura-Saito are the usual choices: ``loss=``.

stft = ShortTimeFFT(hann(512, sym=False), hop=128, fs=RATE)
spectrum = stft.stft(sound)  # frequencies x frames
X = np.abs(spectrum).T
result = enmf.factorize(X, len(PITCHES), random_state=0)
print(result)

# %%
# The templates: each component should be one note with its overtones.

axes = enmf.plot_components(result, "overlay", names=stft.f.astype(str))
axes.set(xlabel="frequency in Hz", xlim=(0, 2800))
strongest = np.sort(stft.f[result.V.argmax(axis=0)])
print("strongest frequencies:", strongest, "played:", PITCHES)

# %%
# When does each sound?

figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
axes.imshow(result.U.T / result.U.max(axis=0)[:, None], aspect="auto", cmap="magma", interpolation="nearest")
axes.set_yticks(range(len(PITCHES)), [str(k + 1) for k in range(len(PITCHES))])
axes.set(xlabel="frame", ylabel="component")

# %%
# **Separation.** The share of a component in the model masks the complex spectrogram (Wiener filter). The masks add
# up to one wherever the model is not zero, so the parts add up to the piece but for some of its noise.

model = np.maximum(result.U @ result.V.T, 1e-12)
parts = [stft.istft(spectrum * (np.outer(u, v) / model).T, k1=len(sound)) for u, v in zip(result.U.T, result.V.T)]
print("largest difference between the sum of the parts and the piece:", f"{np.abs(sum(parts) - sound).max():.1e}")
Sound(parts[0])

# %%
# And another one.

Sound(parts[1])
