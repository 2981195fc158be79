"""The public Python API: each command as a function. `import transload` has them as transload.convert and so on.

A function takes the fields of its command's record of options as keywords (api.pyi has them for editors, and is made by
`python -m transload.pipeline.options.api_stub`). Frameworks run in worker processes, so these functions load none into
the caller's process. They raise TransloadError (models/errors.py) with the message and the fix that the command would
print.
"""

from __future__ import annotations

from ..models.errors import TransloadError
from .cli import bench as bench_command
from .cli import bundle as bundle_command
from .cli import compare as compare_command
from .cli import convert as convert_command
from .cli import history as history_command
from .cli import locate as locate_command
from .cli import record as record_command
from .cli import run as run_command
from .cli import validate as validate_command
from .cli import verify as verify_command
from .commands.bench import BenchResult
from .commands.bundle import BundleResult
from .commands.compare import CompareResult
from .commands.convert import ConvertManyResult, ConvertResult
from .commands.history import HistoryResult
from .commands.locate import LocateAllResult, LocateResult
from .commands.record import RecordResult
from .commands.validate import ValidateResult
from .commands.verify import VerifyResult
from .options.bench_parts import LoadOptions, TuningOptions
from .options.keyword_function import takes
from .show.notebook_html import NotebookRun, in_notebook

__all__ = ["LoadOptions", "TuningOptions"]


@takes(run_command.RunOptions)
def run(options: run_command.RunOptions) -> NotebookRun:
    """Train, convert, validate, measure and judge a model, as `transload run` does. Leaves `runs`/<id>/.

    `pipeline` is a pipeline file; the keywords have precedence over it. Without either the digits recipe is run.
    `baseline`: the folder of an earlier run; its artifacts are measured beside the new ones, and the gate refuses what
    is worse: more than `release_loss` of the metric, in its own unit (without it 0.01 of a score, 2 % of an error), or
    targets, runtimes and test samples missing, unless `allow_missing`.
    `sign_key`: a private key in PEM that signs the statements beside the artifacts (docs/verify.md).
    `mlflow`: the address of a tracking server, or "env", that the finished run is sent to (docs/mlflow.md);
    where that fails, the error is raised although runs/<id>/ is whole.
    """
    finished, _ = run_command.run(options)
    if isinstance(finished.record, TransloadError):
        raise finished.record
    return in_notebook(finished.result)


@takes(record_command.RecordOptions)
def record(options: record_command.RecordOptions) -> RecordResult:
    """Send the finished run in a folder to MLflow, unless it is there. `mlflow`: the server's address, or "env".

    A run that passed gets a version of the registered model `name`-TARGET for each verified artifact; `promote` is the
    alias that then moves to them; with `force` also where the run did not pass, which tags then say.

    The result has the run's page and the models with their addresses.
    """
    return record_command.record(options)


@takes(convert_command.ConvertOptions, single=("models", "model"))
def convert(options: convert_command.ConvertOptions) -> ConvertResult:
    """Convert a model to each target in `to`; each lies in `out`/<target>/ once it has been verified.

    `model`: FILE.py[:NAME], package.module:NAME, zoo:NAME, torchvision:NAME, timm:NAME, hf:FOLDER, FILE.onnx, FILE.pt2,
    FILE.pt (TorchScript), FILE.keras, FILE.tflite, a SavedModel's folder, an artifact's; or an nn.Module, an
    onnx.ModelProto or a Keras model, which is written to `out`/source/ first.
    `settings`: the arguments of a class or a function, {"depth": 50}; `weights_key`: the model's part of a file of
    weights. `python`: the interpreter that its code lives in, "self" for ours; without it that of the code's project,
    where there is one (docs/environments.md). `inputs`: its inputs, as "image=float32[batch,3,224,224]".
    `trust`: it may do more than compute.
    `flex`: operators that TFLite lacks may be TensorFlow's, for a runtime with its Flex delegate.
    `keep_float`: "auto" keeps layers of tflite:int8 in float32 that win most dB for their bytes.
    `data`: FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME (docs/data.md); without it a recipe's
    own data, else random samples. `sign_key`: a private key in PEM that signs the statements beside the artifacts, and
    `model_version` stands in them.

    `non_finite`: "require" refuses routes whose copies do not pass NaN or infinities on.

    The first route that verifies is taken, and no other is tried beside it (`run` does that). A target that could not
    be made has a row with `path` None. The smallest piece at which it fails is searched for `search_seconds`.

    The result has the rows, the verdict and the folder.
    """
    return convert_command.convert(options)


@takes(convert_command.ConvertOptions, without=convert_command.OWN)
def convert_all(options: convert_command.ConvertOptions) -> ConvertManyResult:
    """Convert several models to each target in `to`, side by side; each target lies in `out`/<name>/<target>/.

    The rest is as in `convert`. A model that cannot be taken has its error in its row, and does not stop the others.

    The result has a row for each model, the worst verdict, and the folder.
    """
    return convert_command.convert_all(options)


@takes(validate_command.ValidateOptions)
def validate(options: validate_command.ValidateOptions) -> ValidateResult:
    """Compare the outputs of artifacts (folders, files of models, or URLs of served models) with those of the model
    they were made from. `against` is that model, in any form that `convert` takes; the file of an object is kept under
    `runs`/sources/, and its inputs are those of the artifacts where `inputs` names none.

    There is a row for each artifact, runtime and batch size, the full test set first. `metric`: a name of
    docs/metrics.md, or FILE.py:FUNCTION; the data then holds labels. `allowed_loss`: how much of it a reduced
    precision may lose. `non_finite`: "require" makes it a failure that NaN or infinities are not passed on.

    The result has the rows, the rules that were applied, the verdict and the folder.
    """
    return validate_command.validate(options)


@takes(locate_command.LocateOptions, single=("candidates", "candidate"))
def locate(options: locate_command.LocateOptions) -> LocateResult:
    """Find the first operator of an artifact whose result its inputs do not explain, with its module and source line.

    `against` is the model in PyTorch: code, a .pt2 file, or an nn.Module. `seconds` limit the search.

    The result has the call that departs, the places, the verdict and the folder.
    """
    return locate_command.locate(options)


@takes(locate_command.LocateOptions)
def locate_all(options: locate_command.LocateOptions) -> LocateAllResult:
    """Locate as `locate` does in several artifacts of one model, or in all of a folder that `convert` or a run left.

    The result has one of `locate` for each artifact, and says why others could not be searched.
    """
    return locate_command.locate_all(options)


@takes(bench_command.BenchOptions)
def bench(options: bench_command.BenchOptions) -> BenchResult:
    """Measure the latency of artifacts and of served models (URLs), all in the same rounds.

    Ratios are relative to the model `against`, else to the first candidate in its first runtime; of what is served, to
    the first that is served in the same way. All is repeated in new processes, at least in `processes` of each, until
    all are settled (`same_within`) or `budget_s` is spent. `load` is measured beside that. `tune` searches the settings
    of each runtime first; what it found is used by later calls, too, unless `untuned`.
    The result has the rows and the folder."""
    return bench_command.bench(options)


@takes(compare_command.CompareOptions)
def compare(options: compare_command.CompareOptions) -> CompareResult:
    """Compare the run in the folder `after` with the earlier one in `before`.

    `drift_db`, `metric_loss`, `latency`, `size` and `memory` are what it may lose. `out`: a folder for compare.json,
    compare.md and compare.html. `allow_missing`: artifacts, runtimes and test samples that the earlier run had may be
    missing.

    `remeasure`: the artifacts of both are measured now, each against its former one in the same rounds, in sets of new
    processes, at least `processes` of them, until each is settled; `budget_s` ends it in any case. Runtimes, batch
    sizes and threads are those of the later run, unless they are named; so is the data, where the store still has it.
    Without `out` a folder under `runs` keeps the results.

    The result has the figures with their verdicts, what is new and gone, and the verdict of all.
    """
    return compare_command.compare(options)


@takes(history_command.HistoryOptions)
def history(options: history_command.HistoryOptions) -> HistoryResult:
    """Read several runs in the order of time: folders of runs, or folders that hold runs; those that a `store` knows
    of; those of an `experiment` on the server `mlflow`. Without any of them, those that the default store knows of.

    `batch`: the batch size of latencies. `out`: where to write a page that draws them.

    The result has the runs, their machines, and a point for each artifact in each runtime in each run.
    """
    return history_command.history(options)


@takes(verify_command.VerifyOptions)
def verify(options: verify_command.VerifyOptions) -> VerifyResult:
    """Check the files of an artifact's folder against its statement, and the statement against a public `key` in PEM.

    `model` and `version` are those that it must be of. `replay` asks it its golden samples again, in a worker; without,
    nothing of the artifact is run or loaded. Without a `key` a pass says that the folder is in one piece, and not who
    made it. Raises BadRequest where the folder is no artifact's, or the statement or the key cannot be read.

    The result has the verdict and its exit status as `decided`, the state of the `signature`, the files that are
    `changed`, `missing`, `unlisted`, `relisted` or `linked`, what is `unexpected`, how it `replayed`, and
    as `document` what `transload verify --json` prints.
    """
    return verify_command.verify(options)


@takes(bundle_command.BundleOptions)
def bundle(options: bundle_command.BundleOptions) -> BundleResult:
    """Write the bundle of an artifact for a serving system: tfserving, docker, triton and so on (docs/bundle.md).

    `artifact`: its folder, or that of a run or a convert, of which the best fitting artifact is taken. `out`: a new
    folder. `data`: the inputs of the golden samples; without it those of the run, else random ones. `max_batch`: the
    most rows of a request, for systems that gather requests.

    The result has the folder, the tolerance and the command that checks an endpoint.
    """
    return bundle_command.bundle(options)
