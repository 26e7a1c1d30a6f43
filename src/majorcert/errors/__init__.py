"""The exception tree.

MajorcertError            anything a user can cause and mend
├── PatchError            a patch that makes no sense, or does not fit in the image
├── StrategyError         an ablation strategy that makes no sense, or does not fit in the image
├── BallotsError          votes or scores that are not what they should be
├── EvidenceError         defenders that cannot be judged together, or not by this method
├── StoreError            a file or store that is missing, damaged, incomplete or of another kind
├── DataError             images or labels that cannot be used
└── ModelError            a network, its weights or its configuration that cannot be used
"""


class MajorcertError(Exception):
    """Base of every error that majorcert raises on purpose. Its text is meant for the user."""


class PatchError(MajorcertError):
    """A patch that makes no sense, or does not fit in the image."""


class StrategyError(MajorcertError):
    """An ablation strategy that makes no sense, or does not fit in the image."""


class BallotsError(MajorcertError):
    """Votes or scores that are not what they should be."""


class EvidenceError(MajorcertError):
    """Defenders that cannot be judged together, or not by this method."""


class StoreError(MajorcertError):
    """A file or store that is missing, damaged, incomplete or of another kind."""


class DataError(MajorcertError):
    """Images or labels that cannot be used."""


class ModelError(MajorcertError):
    """A network, its weights or its configuration that cannot be used."""
