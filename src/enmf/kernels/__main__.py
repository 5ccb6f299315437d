"""`python -m enmf.kernels`: the instruction sets that the compiled loops can use here, and the one in use."""

from __future__ import annotations

from enmf.kernels import available, chosen, load


def main() -> None:
    try:
        compiled = load(chosen())
    except ImportError as problem:
        raise SystemExit(str(problem)) from None
    print(f"in use     {chosen()}")
    print(f"available  {', '.join(available())}")
    print(f"compiler   {compiled.COMPILER}")
    print("The environment variable ENMF_KERNELS chooses another one.")


if __name__ == "__main__":
    main()
