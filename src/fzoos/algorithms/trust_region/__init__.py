"""FedTrustRegion: surrogates minimised in a trust region, for few dimensions."""

from fzoos.algorithms.trust_region.settings import FedTrustRegion

__all__ = ["FedTrustRegion"]
