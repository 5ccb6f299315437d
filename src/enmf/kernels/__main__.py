"""`python -m enmf.kernels`: the instruction sets that the compiled loops can use here, and the one in use."""

from __future__ import annotations

from enmf.kernels import available, level, load


def main() -> None:
    print(f"in use     {level}")
    print(f"available  {', '.join(available())}")
    print(f"compiler   {load(level).COMPILER}")
    print("The environment variable ENMF_KERNELS chooses another one.")


if __name__ == "__main__":
    main()
