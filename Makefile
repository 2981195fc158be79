# make setup   .venv with the tested set of libraries         make demo   the digits run, from training to verdict
# make test    the tests                                       make lint   ruff and mypy
# make quick   what needs no framework, and one model through each; two minutes
# make slow    the slow tests                                 make docs-check   docs and code say the same
# make canaries   each patch of another library is still needed (docs/evidence/patches.md); minutes
# make gpu-check   on a machine with a GPU: what runtimes make of it (docs/gpu.md). GPU_CHECK="--budget 9m" for a part, --plan for the plan
# make fuzz   invalid requests to `transload serve` over HTTP and gRPC, REQUESTS=100000 of each, and mutated files to
#             every reader, CASES=200000 (docs/security.md); hours. A run that was stopped is gone on with
# make conformance   the ONNX node tests through SavedModel and TFLite, and others beside them (docs/evidence/conformance.md)
# make routes   the recipes there and back, and 40 models from every format to every other (docs/evidence/routes.md)
# make mutations   right and wrong copies of small models through the checks (docs/evidence/mutations.md); an hour
# make hostile   549 hostile files through every command that reads them, each defence alone, too (docs/security.md)
# make cluster   models on Ray's own test cluster, a node and the command killed (docs/scale.md); needs the extra ray
# make environments   small models from environments with other torch and Python (docs/evidence/environments-tried.md); hours, 40 GB.
#             ENVIRONMENTS='--only torch2.4' for one. A run that was stopped is gone on with
# make libraries   models of 35 other libraries from an environment of theirs (docs/evidence/libraries-tried.md); two hours, 3 GB
# make mutants   the rules of verdict broken one place at a time; the unit tests must notice (docs/evidence/figures.md)
# make figures   docs/evidence/figures.md anew: how old each committed figure is
# make zoo   many models through every step, and onnx2tf beside them (docs/evidence/zoo.md); hours. ZOO='--only timm/*' for some
# make calibration   how often verdicts on latency are right: 200 pairs in process and served; four hours
# make release   12 pairs of trained releases, and how often the verdict on them is right (docs/compare.md); 20 minutes
# make audit   known holes in the tested set    make lock   constraints.lock, with hashes    make sbom   sbom.cdx.json
#
# PYTHON=/path/to/python3.12 picks the interpreter, EXTRAS=gpu,dev the extras (docs/install.md).

SHELL := /bin/bash
.DEFAULT_GOAL := help

EXTRAS ?= cpu,dev
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: mutants figures release calibration cluster audit lock sbom help setup demo quick test slow canaries lint gpu-check docs-check conformance environments libraries zoo routes mutations soak hostile fuzz

help:
	@sed -n '1,24s/^# \{0,1\}//p' Makefile

setup: # .ci/setup keeps a stamp: a second call is instant, a changed list of libraries installs anew
	@.ci/setup "$(PYTHON)" "$(EXTRAS)"

demo: setup
	$(RUN) -m transload run

# Tests start a thousand processes, which compile all of it anew where PYTHONDONTWRITEBYTECODE is set.
COMPILE := $(RUN) -m compileall -q -j 2 models converters serving pipeline

# Three files at a time on two cores: tests of servers and of whole commands wait for other processes.
test: setup # whole commands first; the processes that pytest starts take -P from the environment
	$(COMPILE)
	PYTHONSAFEPATH=1 $(RUN) -P -m pytest -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST)

QUICK := tests/architecture tests/unit/models/test_*.py tests/unit/models/probes tests/unit/models/zoo tests/unit/serving/wire \
	$(addprefix tests/unit/pipeline/,bench cli plan report result intake test_request.py) tests/integration/test_smoke.py
quick: setup
	$(COMPILE)
	PYTHONSAFEPATH=1 $(RUN) -P -m pytest $(QUICK) -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST)

slow: setup
	$(RUN) -P -m pytest -m slow $(PYTEST)

canaries: setup # in a process of their own: others register patches for good
	PYTHONSAFEPATH=1 $(RUN) -P -m pytest tests/canaries -o python_files=canary_patches.py -W ignore $(PYTEST)

lint: setup
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	.ci/lint-benchmarks

gpu-check:
	$(if $(wildcard $(RUN)),$(RUN),python3) benchmarks/gpu_check $(GPU_CHECK)

POOL ?= .transload/calibration
FUZZ_PACKAGES := benchmarks/fuzz/.packages
$(FUZZ_PACKAGES)/stamp: benchmarks/fuzz/requirements.txt
	rm -rf $(FUZZ_PACKAGES)
	$(RUN) -m pip install -q --target $(FUZZ_PACKAGES)/site-packages -r $<
	touch $@

REQUESTS ?= 100000
CASES ?= 200000
fuzz: setup $(FUZZ_PACKAGES)/stamp
	$(RUN) benchmarks/fuzz --requests $(REQUESTS) --out benchmarks/results/fuzz.json
	$(RUN) benchmarks/fuzz/files --cases $(CASES) --out benchmarks/results/fuzz_files.json
	$(RUN) benchmarks/fuzz/records --out benchmarks/results/fuzz_records.json

calibration: setup # the pool goes on where it was stopped
	$(RUN) benchmarks/calibration collect --pool $(POOL)
	$(RUN) benchmarks/calibration judge --pool $(POOL)

release: setup
	$(RUN) benchmarks/release --out benchmarks/results/release.json

soak: setup
	$(RUN) benchmarks/serving/soak.py --minutes 10 --out benchmarks/results/soak.json

hostile: setup
	$(RUN) -m tests.hostile.corpus --out benchmarks/results/hostile.json

mutants: setup
	$(RUN) -m tests.mutants --out benchmarks/results/mutants.json

figures:
	$(RUN) benchmarks/figures.py

audit: setup
	$(RUN) .ci/audit

lock: setup
	$(RUN) .ci/lock

SBOM_TOOLS := .venv/sbom
sbom: setup # the wheel and the cpu image take their libraries from this set, which has those of the tests, too
	test -x $(SBOM_TOOLS)/bin/cyclonedx-py || { $(RUN) -m venv $(SBOM_TOOLS) && $(SBOM_TOOLS)/bin/python -m pip install -q cyclonedx-bom==7.5.0; }
	$(SBOM_TOOLS)/bin/cyclonedx-py requirements constraints.lock --pyproject pyproject.toml --output-reproducible -o sbom.cdx.json

ONNX2TF := benchmarks/zoo/.onnx2tf
$(ONNX2TF)/stamp: benchmarks/zoo/onnx2tf.txt # stands beside our own lowering in two tables
	rm -rf $(ONNX2TF)
	$(RUN) -m pip install -q --no-deps --target $(ONNX2TF) -r $<
	touch $@

conformance: setup $(ONNX2TF)/stamp
	$(RUN) benchmarks/conformance --write --jobs 2 --backend saved-model tflite onnxruntime "onnx2tf saved-model" "onnx2tf tflite"

docs-check: setup
	$(RUN) -P -m pytest tests/cli/test_docs.py tests/cli/test_reference.py

ZOO_PACKAGES := benchmarks/zoo/.packages
$(ZOO_PACKAGES)/stamp: benchmarks/zoo/requirements.txt # without dependencies: torchvision's is a CUDA build of torch
	rm -rf $(ZOO_PACKAGES)
	$(RUN) -m pip install -q --no-deps --target $(ZOO_PACKAGES)/site-packages -r $<
	touch $@

routes: setup $(ZOO_PACKAGES)/stamp
	$(RUN) benchmarks/round_trips.py
	$(RUN) benchmarks/routes --jobs 2 --again --publish $(ROUTES)

MUTATION_PACKAGES := benchmarks/mutations/.packages
$(MUTATION_PACKAGES)/polygraphy: benchmarks/mutations/requirements.txt # a column of the table; absent, it is left out
	-$(RUN) -m pip install -q --no-deps --target $(MUTATION_PACKAGES) -r $<

mutations: setup $(MUTATION_PACKAGES)/polygraphy
	$(RUN) benchmarks/mutations --again --publish $(MUTATIONS)

cluster: setup # where the extra `ray` is installed
	$(RUN) benchmarks/cluster/proof.py $(CLUSTER)
	$(RUN) benchmarks/cluster/simulate.py

environments: setup # about 5 GB for each of the environments, which it makes in .transload/environments
	$(RUN) benchmarks/environments $(ENVIRONMENTS)

libraries: setup # 2.4 GB in .transload/libraries
	$(RUN) benchmarks/libraries --jobs 2 $(LIBRARIES)

zoo: setup $(ZOO_PACKAGES)/stamp $(ONNX2TF)/stamp
	$(RUN) benchmarks/zoo/run.py --again old --columns onnx,saved-model,tflite,tflite:int8 $(ZOO)
	$(RUN) benchmarks/zoo/run.py --again old --columns onnx2tf --seconds 180 --publish $(ZOO)
