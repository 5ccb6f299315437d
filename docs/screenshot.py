"""docs/images/report.png: the report of `make demo` in headless Chromium, as the README shows it."""

import shutil
import subprocess
import sys
from pathlib import Path

from sklearn.datasets import load_digits

import enmf


def main() -> int:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium found: install it to make the screenshot", file=sys.stderr)
        return 2
    picture = Path(__file__).parent / "images" / "report.png"
    X = load_digits().data
    page = Path("digits.html").resolve()
    result = enmf.factorize(X, 16, random_state=0)
    result.report(page, X, image_shape=(8, 8), title="Handwritten digits in 16 components")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=900,1080"]
    subprocess.run([browser, *flags, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True)
    print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
