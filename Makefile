# SPDX-License-Identifier: Apache-2.0
# A thin front to Meson: installs what is missing, builds in build/, runs.

BUILD ?= build
MESON_FLAGS ?=
export QKSCOPE_BUILD := $(BUILD)
PYTHON := .venv/bin/python
# Runs a command; its output is shown only if it fails.
quietly = { $(1) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }; rm -f $(BUILD).log; }

C_FILES = $(shell git ls-files '*.c' '*.h')

.PHONY: build reference demo demo-real programs test-build test test-all test-long changed asan sanitized coverage bench \
	arm64 portable-check macos-compile dist-binary chroot-check valgrind fuzz lint format install uninstall dist wheel wheel-check \
	wheel-sources deb hf-env hf-models site clean

build: tools/.packages
	@test -f $(BUILD)/build.ninja || { echo "Building $(BUILD)/qkscope: about 75 seconds of processor, later only what changed"; \
		$(call quietly,meson setup $(BUILD) -Dtests=false $(MESON_FLAGS)); }
	@NINJA_STATUS='%p ' ninja -C $(BUILD) $$(test -t 1 || echo --quiet)

demo: build
	@tools/demo.sh

# The same on a pretrained model, which is fetched, as is the text that it reads. 3 to 5 minutes. MODEL: smollm2 or
# gemma3-270m; DIR: where to.
demo-real: build
	@MODEL=$(MODEL) tools/real_model.sh $(if $(DIR),"$(DIR)")

# The same with test programs.
programs: tools/.packages-test
	@$(call quietly,meson setup $(BUILD) \
		$$(test -f $(BUILD)/build.ninja && echo --reconfigure) -Dtests=true $(MESON_FLAGS))
	@ninja -C $(BUILD) --quiet

# And the Python package, for the interpreter of the tests.
test-build: tools/.packages-test .venv/ready
	@test -f $(BUILD)/.test-build || $(call quietly,meson setup $(BUILD) $$(test -f $(BUILD)/build.ninja && echo --reconfigure) \
		-Dtests=true -Dpython=$(abspath $(PYTHON)) $(MESON_FLAGS))
	@touch $(BUILD)/.test-build
	@ninja -C $(BUILD) --quiet

# What is tested when: TESTING.md.
test: test-build
	@$(PYTHON) tests/run.py $(BUILD)

test-all: test-build tools/.packages-test-all .venv/ready-all
	@$(PYTHON) tests/run.py $(BUILD) --tier all

test-long: test-build tools/.packages-test-all .venv/ready-all sanitized
	@$(PYTHON) tests/run.py $(BUILD) --tier long
	@$(SANITIZERS) $(PYTHON) tests/run.py build-asan --tier all
	@$(MAKE) --no-print-directory valgrind fuzz

# Of test-all what belongs to what changed of late (tests/changed.py), for SECONDS at most.
SECONDS ?= 180
changed: test-build tools/.packages-test-all .venv/ready-all
	@$(PYTHON) tests/run.py $(BUILD) --tier all --changed $(SECONDS)

# torch and transformers, for the tests of the bridge: once, outside the checkout. Nothing else fetches them; tests
# look for them there, or for the interpreter that QKSCOPE_HF_PYTHON names, and skip where there are none.
HF_ENV := $(HOME)/.cache/qkscope/hf
hf-env: tools/.packages-test
	@cmp -s tests/hf/requirements.txt $(HF_ENV)/ready || { tools/python_env.sh $(HF_ENV) tests/hf/requirements.txt && \
		cp tests/hf/requirements.txt $(HF_ENV)/ready; }
	@echo $(HF_ENV)/bin/python

# docs/dev/models.md: every type of transformers, captured or refused. 2 minutes.
hf-models: test-build
	@PYTHONPATH=$(BUILD)/python $${QKSCOPE_HF_PYTHON:-$(HF_ENV)/bin/python} tests/hf/hf_models.py --write docs/dev/models.md

# The documentation as pages to read from a folder: BUILD/site/index.html. With mkdocs alone, as the tests pin it.
site: $(BUILD)/mkdocs/ready $(BUILD)/gallery.made
	@NO_MKDOCS_2_WARNING=1 $(BUILD)/mkdocs/bin/mkdocs build --quiet --site-dir $(abspath $(BUILD))/site
	@echo $(BUILD)/site/index.html

# The pictures of docs/dev/pictures.md that no other page shows.
$(BUILD)/gallery.made:
	@$(MAKE) --no-print-directory build
	@tools/make_gallery.sh && touch $@

$(BUILD)/mkdocs/ready: tests/requirements-all.txt tools/.packages
	@python3 -m venv $(BUILD)/mkdocs
	@grep '^mkdocs-material=' tests/requirements-all.txt | \
		$(BUILD)/mkdocs/bin/pip install --quiet --disable-pip-version-check -r /dev/stdin
	@touch $@

bench: test-build tools/.packages-bench .venv/ready-all
	@meson configure $(BUILD) -Dbench=true && ninja -C $(BUILD) --quiet
	@$(call installed,bench/requirements.txt)
	@$(PYTHON) bench/run.py $(BUILD)
	@$(PYTHON) bench/analyses.py $(BUILD)
	@$(PYTHON) bench/prefill.py $(BUILD)
	@$(PYTHON) bench/attention.py $(BUILD)
	@$(PYTHON) bench/tokenizer.py $(BUILD)
	@$(PYTHON) bench/scatter.py $(BUILD)
	@$(PYTHON) bench/packed.py $(BUILD)
	@$(PYTHON) bench/report.py $(BUILD)
	@$(PYTHON) bench/capture_shards.py $(BUILD)
	@$(PYTHON) bench/keep.py $(BUILD)
	@$(PYTHON) bench/real.py $(BUILD)

# What `make test` runs, under AddressSanitizer and UndefinedBehaviorSanitizer. A small quarantine of freed memory, since
# some tests watch how much is used; warnings are of the other build, which optimizes as users have it.
SANITIZERS = ASAN_OPTIONS=quarantine_size_mb=8 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
sanitized: tools/.packages-test .venv/ready
	@test -f build-asan/build.ninja || meson setup build-asan -Dtests=true -Db_sanitize=address,undefined \
		-Db_lundef=false --buildtype=debug -Doptimization=1 -Dc_args='-g1 -w' >/dev/null
	@ninja -C build-asan --quiet

asan: sanitized
	@$(SANITIZERS) $(PYTHON) tests/run.py build-asan

# Which lines of src/ `make test` runs, as gcov counts them.
coverage: tools/.packages-test tools/.packages-dev .venv/ready
	@test -f build-coverage/build.ninja || $(call quietly,meson setup build-coverage -Dtests=true -Db_coverage=true \
		-Doptimization=1 -Dc_args=-fprofile-update=single -Dpython=$(abspath $(PYTHON)))
	@ninja -C build-coverage --quiet
	@find build-coverage -name '*.gcda' -delete
	@$(PYTHON) tests/run.py build-coverage
	@python3 tools/coverage.py build-coverage

# Builds for arm64 and compares what comes out, under an emulator: tools/arm64.sh says what that needs.
arm64: build
	@tools/arm64.sh $(BUILD)

# What stands for Linux's own ways elsewhere (src/base/system.h), tried here.
portable-check: tools/.packages-test .venv/ready
	@test -f build-portable/build.ninja || meson setup build-portable -Dtests=true -Dlinux_ways=false --buildtype=debug >/dev/null
	@ninja -C build-portable --quiet qkscope $(foreach name,process context parallel paths,tests/base/test_$(name)) \
		$(foreach name,shard units units_memory,tests/work/test_$(name))
	@meson test -C build-portable --no-rebuild --quiet \
		$(addprefix base-,process context parallel paths) $(addprefix work-,shard units memory)
	@QKSCOPE_BUILD=build-portable $(PYTHON) -m pytest -q -p no:cacheprovider -n 2 tests/work tests/hub/test_asked.py

# Every file of the library and the command is compiled for macOS, and linked, where no Mac is: tools/cross.sh.
macos-compile: tools/.packages
	@tools/cross.sh aarch64-macos
	@tools/cross.sh x86_64-macos

# One archive with the program, its libraries in it, for TARGET: BUILD/qkscope-VERSION-TARGET.tar.xz, see docs/dev/packaging.md.
TARGET ?= $(shell uname -m)-linux
dist-binary: build
	@tools/dist_binary.sh $(BUILD) $(TARGET)

# Builds in a bare chroot of each of these releases of Debian (as root): tools/chroot_check.sh.
CHROOTS ?= bookworm trixie
chroot-check: build
	@tools/chroot_check.sh $(BUILD) $(CHROOTS)

# Unit tests and the main job under valgrind.
valgrind: tools/.packages-dev programs
	@python3 tests/run.py $(BUILD) --valgrind

# Each fuzz target for FUZZ_SECONDS.
FUZZ_SECONDS ?= 600
fuzz: tools/.packages-dev
	@tools/fuzz.sh $(FUZZ_SECONDS)

# clang-tidy looks at all files, at those that differ from the commit SINCE, or with SINCE=recent at those
# that this branch or the last commit changed.
SINCE ?=
lint: tools/.packages-dev build
	@tools/lint.sh $(BUILD) $(SINCE)

format: tools/.packages-dev
	@clang-format -i $(C_FILES)

# docs/reference/: options from the tables of settings, tables from the schema. And the keywords of the Python
# package's functions, for type checkers.
reference: test-build
	@python3 tools/generate.py $(BUILD)/description.json options.md >docs/reference/options.md
	@$(BUILD)/qkscope explain --json | python3 tools/tables_page.py >docs/reference/tables.md
	@PYTHONPATH=$(BUILD)/python $(PYTHON) python/make_stubs.py analyses >$(BUILD)/analyses.pyi
	@mv $(BUILD)/analyses.pyi python/qkscope/analyses.pyi
	@PYTHONPATH=$(BUILD)/python $(PYTHON) python/make_api_page.py >docs/reference/python-api.md

# Below PREFIX, in DESTDIR if that is given: of any build, whatever it was set up for.
PREFIX ?= /usr/local
DESTDIR ?=
PLACE = "$(abspath $(PREFIX))" "$(if $(DESTDIR),$(abspath $(DESTDIR)))"
install: build
	@tools/install.sh $(BUILD) $(PLACE)

uninstall:
	@tools/install.sh --remove $(BUILD) $(PLACE)

# What git has of the last commit, as one file, which builds without git.
VERSION = $(shell sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
ARCHIVE = $(BUILD)/qkscope-$(VERSION).tar.gz
dist:
	@mkdir -p $(BUILD)
	@git archive --prefix=qkscope-$(VERSION)/ --output=$(ARCHIVE) HEAD
	@echo $(ARCHIVE)

# The Python package with the command in it, for TARGET: BUILD/dist, see docs/dev/packaging.md. And that it works, in
# environments of its own.
wheel: tools/.packages
	@mkdir -p $(BUILD)
	@tools/wheel.sh $(BUILD) $(TARGET)

wheel-check: build wheel .venv/ready
	@QKSCOPE_WHEEL=$$(realpath $(BUILD)/dist/*-manylinux_*_$$(uname -m).whl) $(PYTHON) -m pytest -q -p no:cacheprovider \
		tests/python/test_py_package.py

# What a package for conda is built with: BUILD/sources.
wheel-sources: tools/.packages
	@tools/wheel_sources.sh $(BUILD)/sources

# Debian packages of the last commit: BUILD/deb.
deb: tools/.packages-deb dist
	@tools/deb.sh $(BUILD) $(ARCHIVE)

clean:
	rm -rf $(BUILD) build-asan build-coverage build-portable build-cross results

tools/.packages: tools/packages.txt
	@tools/install-packages.sh $^
	@touch $@

tools/.packages-test tools/.packages-test-all tools/.packages-bench: tools/.packages%: tools/packages.txt tools/packages-test.txt tools/packages%.txt
	@tools/install-packages.sh $^
	@touch $@

tools/.packages-dev: tools/packages-dev.txt
	@tools/install-packages.sh $^
	@touch $@

tools/.packages-deb: tools/packages-deb.txt tools/packages.txt tools/packages-test.txt
	@tools/install-packages.sh $^
	@touch $@

# The tests' interpreter: what `make test` needs, and what the rest does. By uv in a tenth of pip's time.
installed = tools/python_env.sh .venv $(1)
.venv/ready: tests/requirements.txt tools/.packages-test
	@$(call installed,$<)
	@touch $@

.venv/ready-all: tests/requirements-all.txt .venv/ready
	@$(call installed,$<)
	@touch $@
