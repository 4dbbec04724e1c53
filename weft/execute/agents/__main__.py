"""One process of a run: ``cluster FOLDER INDEX``, ``source FOLDER``, ``desk FOLDER`` or ``coordinator FOLDER RANK [NAMES]``."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from weft.errors import WeftError


def main(words: list[str]) -> int:
    """Do what the words say until it is over, or until whoever started this closes our input."""
    from weft.execute.agents.desk import DESK, Desk
    from weft.execute.agents.serving import ClusterServer, SourceServer, end_with_starter

    role, folder = words[0], Path(words[1])
    end_with_starter()
    try:
        if role == "coordinator":
            asyncio.run(_coordinate(folder, int(words[2]), json.loads(words[3])))
        elif role == DESK:
            asyncio.run(Desk(folder).listen())
        else:
            server = SourceServer(folder) if role == "source" else ClusterServer(folder, int(words[2]))
            asyncio.run(server.listen())
    except WeftError as error:
        print(f"{role}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


async def _coordinate(folder: Path, rank: int, allowed: list[str]) -> None:
    from weft import plugins
    from weft.execute.agents.coordinating import Coordinator
    from weft.execute.agents.deciding import warm_mirror
    from weft.execute.agents.places import FolderPlaces
    from weft.execute.agents.setup import read_setup

    plugins.allow(allowed)
    setup, problem = read_setup(folder)
    mirror = warm_mirror(setup, problem)
    await Coordinator(folder, FolderPlaces(folder), rank, setup, problem, mirror).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
