test_that("a wrong LLAMAHERD_PYTHON is explained", {
  withr::local_envvar(LLAMAHERD_PYTHON = "/no/such/python", RETICULATE_PYTHON = NA)
  expect_refused(python_of_variable())
  expect_error(python_of_variable(), class = "llamaherd_error_python")
  withr::local_envvar(LLAMAHERD_PYTHON = "", RETICULATE_PYTHON = "managed")
  expect_null(python_of_variable())
  program <- withr::local_tempfile(lines = "")
  withr::local_envvar(LLAMAHERD_PYTHON = program, RETICULATE_PYTHON = "/no/such/python")
  expect_identical(python_of_variable(), program)
})

test_that("a missing Python side says what to do", {
  local_fake()
  withr::local_envvar(LLAMAHERD_PYTHON = NA, RETICULATE_PYTHON = NA)
  expect_refused({
    abort_no_python(NULL)
    abort_no_python("/usr/bin/python3")
  })
  withr::local_envvar(RETICULATE_PYTHON = "/usr/bin/python3")
  expect_error(abort_no_python("/usr/bin/python3"), "unset `RETICULATE_PYTHON`")
})

test_that("searching leaves the environment as it was", {
  skip_if_no_python()
  withr::local_envvar(RETICULATE_MINICONDA_ENABLED = NA)
  expect_silent(discover_python())
  expect_identical(Sys.getenv("RETICULATE_MINICONDA_ENABLED", NA), NA_character_)
  withr::local_envvar(RETICULATE_USE_MANAGED_VENV = "yes")
  discover_python()
  expect_identical(Sys.getenv("RETICULATE_USE_MANAGED_VENV"), "yes")
})

test_that("a Python without the package is recognised", {
  expect_false(has_llamaherd("/no/such/python"))
})

test_that("a Python that an old reticulate cannot start is explained", {
  skip_if_no_python()
  old <- package_version("1.28")
  python <- Sys.which("python3")
  is_new <- runs(python, "import sys; sys.exit(sys.version_info < (3, 12))")
  expect_identical(is_too_new(python, old), is_new)
  expect_false(is_too_new(python, package_version("1.33.0")))
  expect_error(
    abort_too_new("/opt/python3.13"),
    "cannot start Python 3.12 .*/opt/python3.13.*install.packages.*LLAMAHERD_PYTHON",
    class = "llamaherd_error_python"
  )
})

test_that("the backend functions take nothing and return NULL", {
  local_fake()
  expect_null(backend_init())
  expect_null(backend_free())
  expect_invisible(backend_init())
  expect_null(formals(backend_init))
  expect_null(formals(backend_free))
  expect_true(llamaherd_available())
})

test_that("install_llamaherd() refuses what it cannot use", {
  folder <- withr::local_tempdir()
  expect_refused({
    install_llamaherd(envname = 1)
    install_llamaherd(path = folder)
    install_llamaherd(pip_options = NA)
  })
  expect_error(
    install_llamaherd(file.path(folder, "env"), python = "/no/such/python"),
    class = "llamaherd_error_python"
  )
})

test_that("install_llamaherd() takes the address of a Git repository", {
  source <- \(path) install_source(path)
  web <- "https://github.com/llamaherd/llamaherd"
  expect_identical(source(web), paste0("llamaherd[docx,plot] @ git+", web))
  hub <- \(address) paste0("llamaherd[docx,plot] @ git+", address)
  expect_identical(source(paste0("git+", web, "@v1")), hub(paste0(web, "@v1")))
  expect_identical(source("file:///srv/herd.git"), hub("file:///srv/herd.git"))
  expect_identical(source("ssh://git@host/herd"), hub("ssh://git@host/herd"))
  expect_identical(formals(install_llamaherd)$path, repository)
})

test_that("install_llamaherd() takes a folder of wheels, and the wheel for this system", {
  folder <- withr::local_tempdir()
  expect_false(has_wheels(folder))
  names <- sprintf(
    "llamaherd-0.1.0-cp311-abi3-%s.whl",
    c("manylinux_2_34_x86_64", "manylinux_2_34_aarch64", "macosx_14_0_arm64", "win_amd64")
  )
  file.create(file.path(folder, names))
  expect_true(has_wheels(folder))
  expect_false(has_wheels(paste0("file://", folder)))
  wheel <- function(sysname, machine) {
    info <- c(sysname = sysname, machine = machine)
    basename(wheel_for(wheels_in(folder), info))
  }
  expect_identical(wheel("Linux", "x86_64"), names[1])
  expect_identical(wheel("Linux", "aarch64"), names[2])
  expect_identical(wheel("Darwin", "arm64"), names[3])
  expect_identical(wheel("Windows", "x86-64"), names[4])
  expect_error(wheel("Linux", "riscv64"), "no wheel of llamaherd for this system")
  here <- match(Sys.info()[["machine"]], c("x86_64", "aarch64"))
  skip_if_not(Sys.info()[["sysname"]] == "Linux" && !is.na(here))
  expect_identical(
    install_source(folder),
    paste0(file.path(normalizePath(folder), names[here]), "[docx,plot]")
  )
})

test_that("wheels are installed without a compiler and without git", {
  skip_on_os("windows")
  skip_if_no_python()
  folder <- withr::local_tempdir()
  name <- sprintf("llamaherd-0.1.0-cp311-abi3-manylinux_%s.whl", Sys.info()[["machine"]])
  skip_if_not(Sys.info()[["sysname"]] == "Linux")
  writeLines("no wheel", file.path(folder, name))
  bin <- file.path(folder, "bin")
  dir.create(bin)
  python <- Sys.which("python3")[[1]]
  withr::local_envvar(PATH = bin, CXX = NA)
  # pip opens the file, which is not a wheel.
  expect_error(
    suppressMessages(install_llamaherd(file.path(folder, "env"), folder, python)),
    "pip could not install",
    class = "llamaherd_error_python"
  )
})

test_that("what is missing to install is named before anything is done", {
  skip_on_os("windows")
  skip_if_no_python()
  folder <- withr::local_tempdir()
  env <- file.path(folder, "env")
  bin <- file.path(folder, "bin")
  dir.create(bin)
  python <- Sys.which("python3")[[1]]
  install <- \(...) install_llamaherd(env, python = python, ...)
  withr::local_envvar(PATH = bin, CXX = NA)
  program <- function(name, lines = character()) {
    writeLines(lines, file.path(bin, name))
    Sys.chmod(file.path(bin, name), "755")
  }
  class <- "llamaherd_error_python"
  expect_error(install(), "A C[+][+] compiler is needed", class = class)
  program("c++")
  expect_error(install(), "needs git, which was not found", class = class)
  refusal <- 'echo "fatal: no such place: $2" >&2'
  program("git", c("#!/bin/sh", refusal, "exit 128"))
  expect_error(install(), "fatal: no such place: https://github.com/llamaherd/llamaherd")
  other <- "ssh://git@host/a/{b}@feature/x"
  expect_error(install(other), "place: ssh://git@host/a/{b}", fixed = TRUE)
  expect_false(dir.exists(env))
})

test_that("a Python that cannot be used is told by what it lacks", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  with_status <- function(status) {
    path <- file.path(folder, paste0("python", status))
    writeLines(c("#!/bin/sh", paste("exit", status)), path)
    Sys.chmod(path, "755")
    path
  }
  start <- \(status) python_to_start_from(with_status(status))
  expect_identical(start(0), file.path(folder, "python0"))
  expect_error(start(2), "is not Python 3.11 or later")
  expect_error(start(3), "lacks the modules venv and ensurepip")
  expect_error(start(4), "no shared library")
  skip_if_not(utils::packageVersion("reticulate") < "1.33")
  expect_error(start(5), "cannot start Python 3.12 or later")
})

test_that("what is left to do after installing is told", {
  withr::local_envvar(LLAMAHERD_PYTHON = NA, RETICULATE_PYTHON = NA)
  hint <- \(envname) unname(how_to_use("/env/python", envname))[1]
  expect_match(hint("mine"), 'Sys.setenv(LLAMAHERD_PYTHON = "/env/python")', fixed = TRUE)
  withr::local_envvar(RETICULATE_PYTHON = "/other")
  expect_match(hint("r-llamaherd"), 'Sys.unsetenv("RETICULATE_PYTHON")', fixed = TRUE)
  withr::local_envvar(LLAMAHERD_PYTHON = "/other")
  expect_match(hint("r-llamaherd"), 'Sys.unsetenv("LLAMAHERD_PYTHON")', fixed = TRUE)
})

test_that("variables may name the folder of an environment, and a missing one is not available", {
  folder <- withr::local_tempdir()
  dir.create(file.path(folder, "bin"))
  program <- file.path(folder, "bin", "python")
  file.create(program)
  expect_identical(python_at(folder), program)
  expect_identical(python_at(program), program)
  expect_null(python_at(file.path(folder, "bin")))
  withr::local_envvar(LLAMAHERD_PYTHON = file.path(folder, "none"))
  expect_error(python_of_variable(), class = "llamaherd_error_python")
  if (!reticulate::py_available() && is.null(the$module)) {
    expect_false(llamaherd_available())
  }
})

test_that("llama.cpp is compiled as newer Intel processors need it", {
  cpuinfo <- withr::local_tempfile(lines = c("flags : fpu amx_tile avx2", "bugs :"))
  both <- withr::local_tempfile(lines = "flags : avx512_fp16 amx_tile")
  other <- withr::local_tempfile(lines = "flags : fpu avx2")
  flags <- \(cpuinfo) with_compiler_flags(Sys.getenv("CXXFLAGS", NA), cpuinfo)
  withr::local_envvar(CXXFLAGS = NA)
  expect_identical(flags(cpuinfo), "-fno-dse")
  expect_identical(Sys.getenv("CXXFLAGS", NA), NA_character_)
  expect_identical(flags(both), "-fno-dse -U__AVX512FP16__")
  expect_identical(flags(other), NA_character_)
  expect_identical(flags("/no/such/file"), NA_character_)
  withr::local_envvar(CXXFLAGS = "-g")
  expect_identical(flags(cpuinfo), "-g -fno-dse")
  expect_identical(Sys.getenv("CXXFLAGS"), "-g")
})

test_that("objects of another session are refused", {
  context <- local_context()
  path <- withr::local_tempfile()
  saveRDS(context, path)
  old <- readRDS(path)
  expect_refused(generate_parallel(old, "x"))
  expect_page(old)
  expect_error(tokenize(old$model, "x"), class = "llamaherd_error_model")
  expect_null(close(old))
})

test_that("a deleted working directory is named", {
  skip_on_os("windows") # which does not delete it
  local_real()
  folder <- withr::local_tempdir()
  withr::local_dir(folder)
  unlink(folder, recursive = TRUE)
  reason <- "working\\s+directory\\s+was\\s+deleted"
  expect_error(model_load("missing.gguf"), reason, class = "llamaherd_error_argument")
  topics <- codebook("Which?", c("a", "b"))
  expect_error(
    write_codebook(topics, "a.yaml"),
    reason,
    class = "llamaherd_error_argument"
  )
})
