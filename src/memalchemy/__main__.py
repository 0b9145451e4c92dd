"""``python -m memalchemy``: the command line."""

from memalchemy.cli import main

if __name__ == "__main__":
    main()
