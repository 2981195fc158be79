"""The public names, for editors: what __init__.py looks up when it is first used."""

from .pipeline.api import LoadOptions as LoadOptions
from .pipeline.api import TuningOptions as TuningOptions
from .pipeline.api import bench as bench
from .pipeline.api import bundle as bundle
from .pipeline.api import compare as compare
from .pipeline.api import convert as convert
from .pipeline.api import convert_all as convert_all
from .pipeline.api import history as history
from .pipeline.api import locate as locate
from .pipeline.api import locate_all as locate_all
from .pipeline.api import record as record
from .pipeline.api import run as run
from .pipeline.api import validate as validate
from .pipeline.api import verify as verify

__version__: str
__all__: list[str]
