# Sourced by ./quickstart and ./check: installs what is missing and makes .venv. A step that was
# done and whose inputs are as they were is not done again.

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv

PACKAGES=(
  bazel-bootstrap bazel-rules-java bazel-rules-proto bazel-skylib
  g++-12 gcc-12 clang-19 llvm-19 llvm-19-dev lld-19 liblld-19-dev zlib1g-dev libzstd-dev
  libisl-dev libgmp-dev libprotobuf-dev protobuf-compiler libsqlite3-dev
  libgrpc++-dev protobuf-compiler-grpc libcli11-dev openssl
  libgtest-dev libbenchmark-dev pybind11-dev python3-dev python3-venv
  libc6-dev-riscv64-cross libgcc-12-dev-riscv64-cross libstdc++-12-dev-riscv64-cross
  libc6-dev-arm64-cross libgcc-12-dev-arm64-cross libstdc++-12-dev-arm64-cross
  qemu-user ca-certificates
)

# What tc and its tests use where it is there, and go on without where it cannot be installed.
OPTIONAL_PACKAGES=(libpq5)

say() { printf '== %s\n' "$*"; }

# Those of the given Debian packages that are not installed.
missing_of() {
  local package
  for package; do
    [[ $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) == *' installed' ]] || echo "$package"
  done
}

# Installs the optional packages that are missing, where that needs no password.
install_optional_packages() {
  local missing settings=/etc/postgresql-common/createcluster.conf
  mapfile -t missing < <(missing_of "${OPTIONAL_PACKAGES[@]}")
  ((${#missing[@]} && EUID == 0)) || return 0
  # Debian's package of the server makes and starts one of its own otherwise.
  if [[ " ${missing[*]} " == *' postgresql-'* && ! -e $settings ]]; then
    mkdir -p "${settings%/*}"
    echo "create_main_cluster = false" >"$settings"
  fi
  say "installing optional Debian packages: ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold "${missing[@]}" >"$ROOT/build/apt-optional.log" 2>&1 ||
    say "they could not be installed (build/apt-optional.log): going on without them"
}

# Debian packages, with sudo where that is needed and there.
install_packages() {
  local missing sudo=()
  mkdir -p "$ROOT/build"
  mapfile -t missing < <(missing_of "${PACKAGES[@]}")
  ((${#missing[@]})) || { install_optional_packages; return 0; }
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "As root, please: apt-get install -y --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  # An index that is out of step is no reason to stop: installing says what is really missing.
  "${sudo[@]}" apt-get update -qq -o Acquire::Retries=3 ||
    say "apt-get update failed (above); going on with the packages that apt knows"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$ROOT/build/apt.log" ||
    { cat "$ROOT/build/apt.log" >&2; exit 1; }
  install_optional_packages
}

# A Python of at least 3.10 that has venv and headers: the one in PATH, else Debian's.
find_python() {
  local python
  for python in ${TC_PYTHON:-} python3 /usr/bin/python3; do
    if "$python" - 2>/dev/null <<'PYTHON'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
sys.exit(not (sys.version_info >= (3, 10) and os.path.exists(header)))
PYTHON
    then
      echo "$python"
      return
    fi
  done
  echo "No Python of at least 3.10 with venv and headers was found; name one in TC_PYTHON." >&2
  return 1
}

# lay_out_riscv64 NAME FOLDER LOCK PURPOSE: the packages of a lock file in ~/.cache/tc/FOLDER, or, as
# they are, in the folder that TC_NAME_RISCV64 names. Where they can't be fetched, a line says so and
# the build goes on without what they are for; the next run tries again. LAID_OUT is their stamp.
lay_out_riscv64() {
  local variable=TC_$1_RISCV64 before code=0
  local folder=${!variable:-$HOME/.cache/tc/$2}
  before=$(head -n 1 "$folder/packages.txt" 2>/dev/null || true)
  if [[ -z ${!variable:-} ]]; then
    [[ $before ]] || say "fetching packages of riscv64 for $4"
    "$(find_python)" "$ROOT/build_rules/riscv64_sysroot.py" "$folder" --lock "$3" --purpose "$4" || code=$?
    ((code == 0 || code == 3)) || exit "$code"
  elif [[ ! $before ]]; then
    say "$variable names $folder, which has no packages.txt: the build goes on without $4"
  fi
  LAID_OUT=$(head -n 1 "$folder/packages.txt" 2>/dev/null || true)
  # A Bazel server keeps what it found of the folder.
  [[ $before == "$LAID_OUT" ]] || (cd "$ROOT" && bazel shutdown)
}

# The Python that the runtime's wheel for riscv64 is built for and tested with.
lay_out_riscv64_python() {
  lay_out_riscv64 PYTHON python-riscv64 "$ROOT/build_rules/riscv64_python.lock" "the runtime's wheel for riscv64"
}

# stamped NAME HASH COMMAND...: runs the command unless it succeeded before with this hash.
stamped() {
  local stamp=$VENV/stamp.$1 hash=$2
  shift 2
  [[ -f $stamp && $(<"$stamp") == "$hash" ]] && return
  "$@"
  echo "$hash" >"$stamp"
}

# Hash of everything that the installed package is made of.
source_hash() {
  (
    cd "$ROOT"
    find WORKSPACE .bazelrc pyproject.toml setup.py build_rules ir frontend scheduler codegen \
      tuner runtime -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  ) | sha256sum
}

install_requirements() {
  say "installing Python packages of $(basename "$1") into .venv"
  "$VENV/bin/pip" install -qq --disable-pip-version-check -r "$1"
}

install_tc() {
  say "building tc and installing it into .venv"
  (cd "$ROOT" && "$VENV/bin/pip" install -qq --disable-pip-version-check .)
}

# What bazel builds while Python packages are installed: nothing, or options and targets.
BUILD_AHEAD=()

# What a build needs; the arguments are files of Python requirements.
prepare() {
  local file ahead=
  install_packages
  lay_out_riscv64 SYSROOT sysroot-riscv64 "$ROOT/build_rules/riscv64_packages.lock" \
    "the agent of riscv64 boards"
  RISCV64_PACKAGES=$LAID_OUT
  lay_out_riscv64 MUSL musl-riscv64 "$ROOT/build_rules/riscv64_musl.lock" "small executables for riscv64"
  RISCV64_PACKAGES+=" $LAID_OUT"
  if [[ ! -x $VENV/bin/pip ]]; then
    local python
    python=$(find_python)
    say "making .venv"
    "$python" -m venv "$VENV"
  fi
  export TC_PYTHON=$VENV/bin/python
  if ((${#BUILD_AHEAD[@]})); then
    (cd "$ROOT" && exec bazel build --noshow_progress "${BUILD_AHEAD[@]}") >"$ROOT/build/ahead.log" 2>&1 &
    ahead=$!
  fi
  for file in "$@"; do
    stamped "$(basename "$file")" "$(sha256sum <"$file")" install_requirements "$file"
  done
  # What fails to build is told by whoever needs it.
  [[ -z $ahead ]] || wait "$ahead" || true
}

# The same, and tc in .venv.
set_up() {
  prepare "$@"
  stamped tc "$(source_hash) $RISCV64_PACKAGES" install_tc
}
