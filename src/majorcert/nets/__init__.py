"""The network half: views, models, data, training, voting. The only torch code, and not trusted by the certificates."""
