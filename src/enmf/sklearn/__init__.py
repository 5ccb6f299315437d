"""The scikit-learn interface: parameters and fitted attributes, no algorithm."""
