"""
Topics of news
==============

Documents are rows, words are columns, and a topic is a component: words that occur together. Two common weightings,
two losses: tf-idf with least squares, counts with the Kullback-Leibler divergence.
"""

import os

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

import enmf

# %%
# The texts. Without real data, each of 400 short articles mixes one or two of five subjects with words that occur
# everywhere.

SUBJECTS = {
    "weather": "storm rain wind flood snow forecast coast temperature hurricane damage",
    "market": "stocks bonds dollar price trading shares profit bank interest inflation",
    "election": "vote campaign senator party poll candidate debate governor ballot primary",
    "court": "judge trial jury lawyer verdict appeal defendant prosecutor sentence evidence",
    "space": "orbit launch shuttle astronaut rocket satellite mission moon telescope crew",
}
EVERYWHERE = ["said", "year", "people", "new", "time", "government", "state", "million", "official", "week"]


def articles(rng):
    for _ in range(400):
        chosen = rng.choice(list(SUBJECTS), rng.integers(1, 3), replace=False)
        words = [rng.choice(SUBJECTS[name].split()) for name in rng.choice(chosen, 30)]
        yield " ".join([*words, *rng.choice(EVERYWHERE, 25)])


if "ENMF_DATA" in os.environ:
    counts, labels = enmf.datasets.load("press", weight="counts")
    words = labels["vocabulary"]
    rank = 10
    print("Associated Press,", counts.shape)
else:
    vectorizer = CountVectorizer()
    counts = vectorizer.fit_transform(articles(np.random.default_rng(0)))
    words = vectorizer.get_feature_names_out()
    rank = 5
    print("generated articles,", counts.shape)

# %%
# tf-idf and least squares: words that occur everywhere get little weight.

tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
topics = enmf.factorize(tfidf, rank, random_state=0)
print(topics.certificate)


def show(model):
    for k, part in enmf.top_features(model, words, n=6).groupby("component"):
        print(k + 1, ", ".join(part["feature"]))


show(topics)

# %%
# Raw counts and Kullback-Leibler: nothing weighs the frequent words down, but the loss knows that their counts have
# larger noise. One component more, for what occurs everywhere.

by_counts = enmf.factorize(counts, rank + 1, loss="kullback-leibler", random_state=0)
show(by_counts)
print(f"explained: {100 * by_counts.certificate.explained:.1f} % of what the best single component leaves")

# %%
# The words of each topic, with their weights.

enmf.plot_components(topics, "bar", names=words, n=6)

# %%
# What share of a document is which topic? Rows of U, divided by their sums.

shares = topics.U / np.maximum(topics.U.sum(axis=1, keepdims=True), 1e-12)
print(np.round(shares[:5], 2))
