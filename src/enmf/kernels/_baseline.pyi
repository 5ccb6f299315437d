# Compiled from src/kernels; the modules of the other instruction sets have the same contents.
COMPILER: str

def best_level() -> int: ...
