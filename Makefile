# Building, testing and installing treewatch. `make help` lists what there is.

CARGO   ?= cargo
RUSTC   ?= rustc
INSTALL ?= install
PROVE   ?= prove
PREFIX  ?= /usr/local
DESTDIR ?=

# Only some shells put the home directory in the place of `~` in `PREFIX=~/.local`.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))

# How many test files run at once. They are small, and each has its own place.
JOBS    ?= 2
# What `make test` runs; for instance `make test TESTS=t/t0110-files.sh`.
TESTS   ?= t/t[0-9]*.sh
# Where man pages and completions go, below PREFIX.
MAN      := share/man/man1
BASH_DIR := share/bash-completion/completions
ZSH_DIR  := share/zsh/site-functions
FISH_DIR := share/fish/vendor_completions.d
# Extra arguments for every cargo call, such as --locked or --offline.
CARGO_FLAGS ?=

HOST       := $(shell $(RUSTC) -vV 2>/dev/null | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# On glibc Linux the program is linked statically and without relocations, so
# that starting it looks nothing up. The flags go through the variable of the
# target, together with an explicit --target: given to a plain build they would
# reach the procedural macros too, which cannot be static. musl is static
# already, and no other system knows the flags.
ifneq ($(findstring -linux-gnu,$(HOST)),)
RUSTFLAGS_NAME := CARGO_TARGET_$(shell printf %s '$(HOST)' | tr 'a-z-' 'A-Z_')_RUSTFLAGS
STATIC_ENV     := env -u RUSTFLAGS $(RUSTFLAGS_NAME)="$(RUSTFLAGS) -C target-feature=+crt-static -C relocation-model=static"
STATIC_FLAGS   := --target $(HOST)
BUILT          := $(TARGET_DIR)/$(HOST)/release/treewatch
else
STATIC_ENV     :=
STATIC_FLAGS   :=
BUILT          := $(TARGET_DIR)/release/treewatch
endif

SHELL_SCRIPTS = $(wildcard t/*.sh t/perf/*.sh t/model/*.sh hooks/*.sample) t/perf/run t/perf/gen-tree t/perf/get-peers .ci/run .ci/check-macos

.DEFAULT_GOAL := build

# A file called `test` or `install` must not stop a target; and what is out of
# date in the Rust sources only cargo knows, so it is asked each time (it
# answers at once when there is nothing to do).
.PHONY: build check check-macos test demo soak perf install uninstall deb clean help

build: ## build ./treewatch, optimised and (on Linux) static
	@command -v $(CARGO) >/dev/null || { echo >&2 "make: $(CARGO) is not here; get Rust from https://rustup.rs"; exit 1; }
	$(STATIC_ENV) $(CARGO) build --release $(CARGO_FLAGS) $(STATIC_FLAGS)
	@# Put in place by rename: a watcher may be running the old file, and a
	@# file being run cannot be written.
	@cmp -s $(BUILT) treewatch || { cp $(BUILT) treewatch.new && mv -f treewatch.new treewatch; }

check: ## formatting, clippy with warnings as errors, shellcheck where it is installed
	$(CARGO) fmt --check
	$(CARGO) clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	@if command -v shellcheck >/dev/null; then \
		echo "shellcheck $(SHELL_SCRIPTS)"; shellcheck $(SHELL_SCRIPTS); \
	else \
		echo "shellcheck is not installed: shell scripts not checked"; \
	fi

check-macos: ## type-check the whole program for macOS (see .ci/check-macos)
	.ci/check-macos

test: build ## every test: cargo's, then those in t/ (JOBS=, TESTS=)
	$(CARGO) test $(CARGO_FLAGS)
	$(PROVE) --jobs $(JOBS) $(TESTS)

demo: build ## `git status` without and with treewatch, on a made tree or on REPO=dir
	@t/demo.sh $(if $(REPO),'$(REPO)')

soak: build ## the model test for MINUTES= (default 10)
	t/model/soak.sh $(or $(MINUTES),10)

perf: build ## benchmarks against the peers, PERF_SIZE=small|large
	t/perf/run

# Not rebuilt here when the program is there: `sudo make install` often has no
# cargo, and must not leave files of root's in target/.
install: ## install under PREFIX (default /usr/local), below DESTDIR if given
	@test -x treewatch || $(MAKE) build
	$(INSTALL) -d $(foreach dir,bin share/treewatch/hooks $(MAN) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR),'$(DESTDIR)$(PREFIX)/$(dir)')
	$(INSTALL) -m 755 treewatch '$(DESTDIR)$(PREFIX)/bin/treewatch'
	@# By this name git finds `git treewatch`.
	ln -sf treewatch '$(DESTDIR)$(PREFIX)/bin/git-treewatch'
	$(INSTALL) -m 755 hooks/*.sample '$(DESTDIR)$(PREFIX)/share/treewatch/hooks'
	@# Man pages and completions come from the program itself.
	@set -e; made=$$(mktemp -d); trap 'rm -rf "$$made"' EXIT; ./treewatch generate "$$made"; \
		$(INSTALL) -m 644 "$$made"/man1/*.1 '$(DESTDIR)$(PREFIX)/$(MAN)'; \
		$(INSTALL) -m 644 "$$made/bash/treewatch" '$(DESTDIR)$(PREFIX)/$(BASH_DIR)'; \
		$(INSTALL) -m 644 "$$made/zsh/_treewatch" '$(DESTDIR)$(PREFIX)/$(ZSH_DIR)'; \
		$(INSTALL) -m 644 "$$made/fish/treewatch.fish" '$(DESTDIR)$(PREFIX)/$(FISH_DIR)'

uninstall: ## remove what `make install` put there
	rm -f '$(DESTDIR)$(PREFIX)/bin/treewatch' '$(DESTDIR)$(PREFIX)/bin/git-treewatch'
	rm -rf '$(DESTDIR)$(PREFIX)/share/treewatch'
	rm -f '$(DESTDIR)$(PREFIX)/$(MAN)'/treewatch.1 '$(DESTDIR)$(PREFIX)/$(MAN)'/treewatch-*.1 '$(DESTDIR)$(PREFIX)/$(MAN)'/git-treewatch.1
	rm -f '$(DESTDIR)$(PREFIX)/$(BASH_DIR)/treewatch' '$(DESTDIR)$(PREFIX)/$(ZSH_DIR)/_treewatch' '$(DESTDIR)$(PREFIX)/$(FISH_DIR)/treewatch.fish'

# What cargo-deb packs is what was built here, and what the program says of itself.
deb: build ## a Debian package, by cargo-deb (cargo install cargo-deb)
	@$(CARGO) deb --version >/dev/null 2>&1 || { echo >&2 "make: cargo-deb is not here; get it with: cargo install cargo-deb"; exit 1; }
	rm -rf $(TARGET_DIR)/package
	./treewatch generate $(TARGET_DIR)/package
	gzip -9n $(TARGET_DIR)/package/man1/*.1
	ln -s treewatch $(TARGET_DIR)/package/git-treewatch
	@# cargo-deb looks for the assets where Cargo.toml says, whatever the target directory.
	test $(TARGET_DIR) = target || { mkdir -p target && rm -rf target/package && cp -a $(TARGET_DIR)/package target/package; }
	$(CARGO) deb --no-build --no-strip --output $(TARGET_DIR)/

clean: ## remove what was built
	$(CARGO) clean
	rm -rf treewatch treewatch.new t/trash

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
