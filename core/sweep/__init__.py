"""Sweeps: grids of depths, seeds, recipes, sizes, dtypes and batches whose decoders are run, stored and summarized.

    from core.sweep import Store, SweepGrid, SweepRun

    grid = SweepGrid(blocks=(1, 4, 16), seeds=tuple(range(32)), recipes=("depth-scaled",))
    with Store.open("cells.sqlite") as store:
        run = SweepRun(grid, store)
        while run.pending:
            run.step(0.3)  # about 0.3 seconds of work; finished cells are stored and never computed again
        run.rows(), run.cells(), run.summary(), run.growth()  # pandas tables, also while cells are missing

A cell is one recipe on one seed in one setting (size, dtype, batch and depth). A public name loads its module when it
is first read. Only `step` needs torch, which must run on one thread: call `core.sweep.process.use_one_thread` at the
start of the program.
"""

from ..lazy import public

__getattr__, __dir__, __all__ = public(
    __name__,
    {
        ".grid": ("SweepGrid", "Setting", "GridArm"),
        ".store": ("Store",),
        ".run": ("SweepRun",),
        ".plan": ("SweepEstimate",),
        ".ranges": ("parse_seeds", "parse_sizes"),
        ".request": ("uniform_batch",),
    },
)
