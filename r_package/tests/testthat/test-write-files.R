# Files are written whole or not at all.

# Replaces the package's function that writes bytes; `make` gets the old function.
local_write_bytes <- function(make, env = parent.frame()) {
  namespace <- asNamespace("llamaherd")
  set <- function(value) {
    unlockBinding("write_bytes", namespace)
    assign("write_bytes", value, namespace)
    lockBinding("write_bytes", namespace)
  }
  old <- namespace$write_bytes
  set(make(old))
  withr::defer(set(old), envir = env)
}

# Lets the package write only a share of the bytes of each file, as on a full disk.
local_full_disk <- function(share, env = parent.frame()) {
  local_write_bytes(env = env, \(old) {
    \(path, bytes, ...) {
      old(path, utils::head(bytes, as.integer(length(bytes) * share)), ...)
    }
  })
}

test_that("lines that do not fit leave a file as it was", {
  path <- withr::local_tempfile(lines = "before")
  local_full_disk(0.5)
  expect_false(append_lines(path, c("one", "two")))
  expect_identical(readLines(path), "before")
  expect_false(replace_lines(path, c("one", "two")))
  expect_identical(readLines(path), "before")
  expect_false(any(grepl("llamaherd-", dir(dirname(path), all.files = TRUE))))
})

test_that("lines that fit are written", {
  folder <- withr::local_tempdir()
  path <- file.path(folder, "a.txt")
  expect_true(replace_lines(path, "one"))
  expect_true(append_lines(path, c("two", "dr\u00e4i")))
  expect_identical(readLines(path, encoding = "UTF-8"), c("one", "two", "dr\u00e4i"))
  skip_on_os("windows")
  Sys.chmod(path, "640")
  link <- file.path(folder, "link")
  file.symlink(path, link)
  expect_true(replace_lines(link, "three"))
  expect_identical(Sys.readlink(link), path)
  expect_identical(readLines(path), "three")
  expect_identical(format(file.mode(path)), "640")
})

test_that("a log on a full disk stays without half an event", {
  context <- local_context()
  path <- file.path(withr::local_tempdir(), "run.txt")
  withr::defer(the$document <- NULL)
  document_start(path)
  lines <- readLines(path)
  local({
    local_full_disk(0.9)
    expect_warning(
      answers <- generate_parallel(context, "one"),
      "\"generate_parallel\" is missing in the log",
      class = "llamaherd_warning_log"
    )
    expect_identical(as.character(answers), "one!")
    expect_error(
      document_end(),
      "The log is not ended",
      class = "llamaherd_error_argument"
    )
    expect_error(document_end(), "cannot be written")
  })
  expect_identical(readLines(path), lines)
  expect_false(file.exists(paste0(path, ".sha256")))
  suppressMessages(log <- document_end()) # there is space again
  expect_identical(attr(log, "hash"), py_call("file_sha256", path))
  expect_match(readLines(path), "^Duration", all = FALSE)
})

test_that("a log that cannot begin is not being written", {
  local_context()
  path <- file.path(withr::local_tempdir(), "run.txt")
  withr::defer(the$document <- NULL)
  local_full_disk(0)
  expect_error(document_start(path), "No log is being written")
  expect_false(file.exists(path))
  file.create(path)
  expect_error(document_start(path, append = TRUE), "No log is being written")
  expect_true(file.exists(path)) # the user's file
  expect_null(the$document)
})

test_that("the user's .Renviron survives a full disk, and may be new", {
  withr::local_envvar(HF_TOKEN = "")
  folder <- withr::local_tempdir()
  path <- file.path(folder, "environment")
  set_hf_token("hf_a", persist = TRUE, renviron_path = path)
  expect_identical(readLines(path), "HF_TOKEN=hf_a")
  writeLines(c("OTHER=1", "HF_TOKEN=hf_a"), path)
  local_full_disk(0.5)
  expect_error(
    set_hf_token("hf_b", persist = TRUE, renviron_path = path),
    "cannot be written"
  )
  expect_identical(readLines(path), c("OTHER=1", "HF_TOKEN=hf_a"))
})

test_that("a sink keeps the chunks before, and a copy of a model is whole", {
  path <- withr::local_tempfile(fileext = ".csv")
  sink <- annotation_sink_csv(path)
  sink(data.frame(a = 1), "m")
  local({
    local_full_disk(0.5)
    expect_error(sink(data.frame(a = 22222), "m"), "those before are")
  })
  sink(data.frame(a = 3), "m")
  expect_identical(utils::read.csv(path), data.frame(a = c(1L, 3L)))
  expect_false(copy_whole(file.path(path, "missing"), path))
  expect_identical(nrow(utils::read.csv(path)), 2L)
})

test_that("no lines are no bytes", {
  skip_if_no_llamaherd()
  expect_identical(lines_sha256(character()), sha256(""))
  path <- withr::local_tempfile(lines = "before")
  expect_true(append_lines(path, character()))
  expect_identical(readLines(path), "before")
  expect_true(replace_lines(path, NULL))
  expect_identical(file.size(path), 0)
  sink <- annotation_sink_csv(path)
  sink(data.frame(a = 1), "m")
  sink(data.frame(a = numeric()), "m")
  expect_identical(readLines(path), c("\"a\"", "1"))
})

test_that("lines that another process adds meanwhile stay", {
  path <- withr::local_tempfile(lines = "before")
  local_write_bytes(\(old) {
    \(path, bytes, ...) {
      old(path, charToRaw("other\n"), "ab")
      old(path, bytes, ...)
    }
  })
  expect_true(append_lines(path, "own"))
  expect_identical(readLines(path), c("before", "other", "own"))
})

test_that("a named pipe gets lines and stays a pipe", {
  skip_on_os("windows")
  folder <- withr::local_tempdir()
  pipe <- file.path(folder, "pipe")
  skip_if(system2("mkfifo", shQuote(pipe)) != 0)
  from <- file.path(folder, "from")
  writeLines("three", from)
  reader <- fifo(pipe, "r", blocking = FALSE)
  withr::defer(close(reader))
  expect_true(append_lines(pipe, "one"))
  expect_true(replace_lines(pipe, "two"))
  expect_true(copy_whole(from, pipe))
  expect_identical(readLines(reader), c("one", "two", "three"))
  expect_identical(system2("test", c("-p", shQuote(pipe))), 0L)
  expect_true(append_lines("/dev/null", "one"))
  expect_true(replace_lines("/dev/null", "one"))
})

test_that("a copy goes into a folder, and to the file of a link", {
  folder <- withr::local_tempdir()
  from <- withr::local_tempfile(lines = "content", fileext = ".gguf")
  expect_true(copy_whole(from, folder))
  copied <- file.path(folder, basename(from))
  expect_identical(readLines(copied), "content")
  expect_true(copy_whole(copied, folder)) # is there already
  expect_identical(readLines(copied), "content")
  skip_on_os("windows")
  target <- file.path(folder, "target")
  link <- file.path(folder, "link")
  writeLines("old", target)
  file.symlink(target, link)
  expect_true(copy_whole(from, link))
  expect_identical(Sys.readlink(link), target)
  expect_identical(readLines(target), "content")
})

test_that("paths of Python can be pasted into R code, also on Windows", {
  paths <- c("C:\\Users\\gr\u00f6\u00dfe\\a.csv", "\\\\?\\C:\\long", "\\\\server\\x")
  shown <- c("C:/Users/gr\u00f6\u00dfe/a.csv", "\\\\?\\C:\\long", "//server/x")
  expect_identical(r_path(paths, "windows"), shown)
  expect_identical(r_path("a\\b", "unix"), "a\\b") # a character of the name
  expect_null(r_path(NULL, "windows"))
})
