"""Colours of labels that colour-blind people can tell apart."""

PALETTE = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"),
    *("#872d2d", "#8ce6d7", "#4a36c8", "#a97be8", "#b4c396"),
)
"""The seven hues of Okabe and Ito, then those farthest from all others as people with each kind of colour blindness
see them. Up to twelve classes each have their own; of more, those that occur on the image at hand take them in turn."""
