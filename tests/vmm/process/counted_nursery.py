"""The nursery, with its system calls and those of its keepers counted: see `counting`."""

import json
import os
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    before = list(sys.path)
    sys.path[:] = json.loads(sys.argv[1])
    from tests.vmm.process.counting import Moment, count_calls
    from tests.vmm.process.events import EVENTS, Stage

    number, event, caller, place, folder = json.loads(os.environ["MOMENTS"])
    moment = Moment(number, event, caller, Path(place))
    (moment.place / "nursery").write_text(str(os.getpid()))
    stage = Stage(Path(folder), moment)
    count_calls(moment, lambda name, given: EVENTS[event](stage, name, given))
    sys.path[:] = before
    runpy.run_path(os.environ["NURSERY"], run_name="__main__")
