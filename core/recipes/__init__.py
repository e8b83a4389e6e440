"""Depth recipes in words and numbers: contract cards, comparisons, warnings, theory beside measurement, and drift.

The recipes themselves are data of `core.decoder.recipes`; this package reads them and observes their arms. A public
name loads its module when it is first read, so cards, constants and differences are at hand without torch.
"""

from core.lazy import expose

__all__ = expose(
    __name__,
    {
        "core.recipes.card": ("Card", "card", "cards"),
        "core.recipes.constants": ("deepnorm_constants", "fixup_factor", "gpt2_writer_std", "t_fixup_constants"),
        "core.recipes.drawing": ("drawing",),
        "core.recipes.difference": ("difference_table",),
        "core.recipes.request": ("ComparisonRequest",),
        "core.recipes.comparison": ("Comparison", "compare_recipes"),
        "core.recipes.comparison_tables": ("profile_table", "contribution_table", "largest_table", "share_table"),
        "core.recipes.token_cosines": ("token_cosine_table",),
        "core.recipes.overlays": ("site_overlay_table", "depth_overlay_table", "overlay_errors"),
        "core.recipes.combinations": ("CombinationReport", "combination_report"),
        "core.recipes.drift": ("VARIANTS",),
        "core.recipes.drift_table": ("drift_table",),
        "core.recipes.document": ("recipes_document",),
    },
)
