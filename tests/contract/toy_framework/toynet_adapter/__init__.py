"""The adapter of the toy framework; importing it makes Leadline wait for ``import toynet``."""

from leadline.frameworks.loaded_adapters import FRAMEWORKS

FRAMEWORKS["toynet"] = "toynet_adapter.adapter:ToyAdapter"
