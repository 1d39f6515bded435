# shellcheck shell=bash
# Minimal Debian systems in folders, also for 64-bit ARM, whose programs run under
# qemu-user. QEMU_CPU is the emulated processor; the default is the core of AWS Graviton2
# and Ampere Altra. BARE_BASE (/var/tmp/llamaherd-bare) stores the systems.
export QEMU_CPU=${QEMU_CPU:-neoverse-n1}

# enable_emulation: makes the kernel run programs for ARM with qemu, until the machine
# restarts. Needs root, and Debian's package qemu-user-static.
enable_emulation() {
  local folder=/proc/sys/fs/binfmt_misc rule=/usr/lib/binfmt.d/qemu-aarch64.conf
  [[ ! -e $folder/qemu-aarch64 ]] || return 0
  ((EUID == 0)) || die "the kernel does not run programs for ARM; run this once as root, which enables it"
  [[ -f $rule ]] || die "qemu is missing: apt-get install qemu-user-static"
  [[ -e $folder/register ]] || mount -t binfmt_misc binfmt_misc "$folder"
  [[ -e $folder/qemu-aarch64 ]] || printf '%s' "$(<"$rule")" >"$folder/register"
}

# debian_name PROCESSOR: prints Debian's name of a processor that `uname -m` names.
debian_name() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "$1 is none of x86_64, aarch64" ;;
  esac
}

# debian_base SUITE PROCESSOR [r|vulkan]: prints the folder of a system that contains the
# essential packages of a suite of Debian or Ubuntu, apt (which needs libstdc++, as the wheels
# do), and python3-venv; with `r` also R, the R packages of DESCRIPTION, and the Python that
# reticulate loads; with `vulkan` also VULKAN_PACKAGES. make_debian_base creates it.
debian_base() {
  echo "${BARE_BASE:-/var/tmp/llamaherd-bare}/$1-$(debian_name "$2")${3:+-$3}"
}

# Prints Debian's packages for R, joined by commas. Vignettes are not built.
r_packages() {
  local name
  printf 'r-base-core,libpython3-dev'
  { r_field Imports && r_field Suggests; } | grep -v -x -e knitr -e rmarkdown |
    while read -r name; do printf ',r-cran-%s' "${name,,}"; done
}

# What compiles libllama with Vulkan and the C tests, and Mesa's drivers, one of which
# (lavapipe) computes on the processor.
VULKAN_PACKAGES=g++,git,libvulkan-dev,glslc,spirv-headers,mesa-vulkan-drivers,doctest-dev

# apt uses the network settings of this machine. Suites of Ubuntu need the package
# ubuntu-keyring; python3-venv is in Ubuntu's component universe.
make_debian_base() {
  local base config components=main packages=apt,python3-venv,ca-certificates
  base=$(debian_base "$@")
  config=$base.apt
  if grep -qs ",$1," /usr/share/distro-info/ubuntu.csv; then components=main,universe; fi
  case ${3:-} in
    r) packages+=,$(r_packages) ;;
    vulkan) packages+=,$VULKAN_PACKAGES,python3-dev ;;
  esac
  rm -rf --one-file-system "$base"
  mkdir -p "$(dirname "$base")"
  apt-config dump | grep -E '^(Acquire::(https?|Retries|Check-Valid-Until)|DPkg)' >"$config" || true
  mmdebstrap --arch="$(debian_name "$2")" --variant=minbase \
    --components="$components" --include="$packages" --aptopt="$config" "$1" "$base"
  touch "$base/.made"
}

# need_debian SUITE PROCESSOR [r|vulkan]: creates the system if it does not exist.
need_debian() {
  ((EUID == 0)) || die "a Debian system can be created and entered only by root"
  command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
  if [[ $2 != "$(uname -m)" ]]; then enable_emulation; fi
  [[ -f $(debian_base "$@")/.made ]] || logged "debian-$(basename "$(debian_base "$@")")" make_debian_base "$@"
}
