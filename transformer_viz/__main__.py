"""``python -m transformer_viz``: the same as the command ``transformer-viz``."""

from .cli.main import main

if __name__ == "__main__":
    main()
