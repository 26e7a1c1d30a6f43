"""The network half: views, models, data, training, voting. Certificates do not trust it, nor any other torch code."""

try:
    import safetensors
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"networks need {error.name}, which is not installed; pip install 'majorcert[nets]' brings it", name=error.name
    ) from None

__all__ = ["safetensors", "torch"]
