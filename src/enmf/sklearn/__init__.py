"""scikit-learn's view: parameters and fitted attributes, no algorithm."""
