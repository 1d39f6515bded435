# Files are written whole or not at all: by Python, see append_whole() and write_whole() there.

# Lets no file be written, as on a full disk.
local_full_disk <- function(env = parent.frame()) {
  fake <- reticulate::import_from_path("fake_r", test_path("python"))
  fake$fill_disk(TRUE)
  withr::defer(fake$fill_disk(FALSE), envir = env)
}

test_that("a log on a full disk stays without half an event", {
  context <- local_context()
  path <- file.path(withr::local_tempdir(), "run.txt")
  withr::defer(the$document <- NULL)
  document_start(path)
  lines <- readLines(path)
  local({
    local_full_disk()
    expect_warning(
      answers <- generate_parallel(context, "one"),
      "\"generate_parallel\" is missing in the log",
      class = "llamaherd_warning_log"
    )
    expect_identical(as.character(answers), "one!")
    expect_error(document_end(), "cannot be used", class = "llamaherd_error_argument")
  })
  expect_identical(readLines(path), lines)
  suppressMessages(log <- document_end()) # there is space again
  expect_identical(attr(log, "hash"), py_call("file_sha256", path))
  expect_match(readLines(path), "^Duration", all = FALSE)
})

test_that("a log that cannot begin is not being written", {
  local_context()
  path <- file.path(withr::local_tempdir(), "run.txt")
  withr::defer(the$document <- NULL)
  local_full_disk()
  expect_error(document_start(path), "cannot be used")
  expect_false(file.exists(path))
  file.create(path)
  expect_error(document_start(path, append = TRUE), "cannot be used")
  expect_true(file.exists(path)) # the user's file
  expect_null(the$document)
})

test_that("the user's .Renviron survives a full disk, and may be new", {
  skip_if_no_llamaherd()
  withr::local_envvar(HF_TOKEN = "")
  path <- file.path(withr::local_tempdir(), "environment")
  set_hf_token("hf_a", persist = TRUE, renviron_path = path)
  expect_identical(readLines(path), "HF_TOKEN=hf_a")
  writeLines(c("OTHER=1", "HF_TOKEN=hf_a"), path)
  local_full_disk()
  expect_error(
    set_hf_token("hf_b", persist = TRUE, renviron_path = path),
    "cannot be used"
  )
  expect_identical(readLines(path), c("OTHER=1", "HF_TOKEN=hf_a"))
})

test_that("a sink keeps the chunks before", {
  skip_if_no_llamaherd()
  path <- withr::local_tempfile(fileext = ".csv")
  sink <- annotation_sink_csv(path)
  sink(data.frame(a = 1), "m")
  local({
    local_full_disk()
    expect_error(sink(data.frame(a = 22222), "m"), "cannot be used")
  })
  sink(data.frame(a = 3), "m")
  sink(data.frame(a = numeric()), "m")
  expect_identical(utils::read.csv(path), data.frame(a = c(1L, 3L)))
})

test_that("no lines are no bytes", {
  skip_if_no_llamaherd()
  expect_identical(lines_sha256(character()), sha256(""))
})

test_that("paths of Python can be pasted into R code, also on Windows", {
  paths <- c("C:\\Users\\gr\u00f6\u00dfe\\a.csv", "\\\\?\\C:\\long", "\\\\server\\x")
  plain <- c("C:/Users/gr\u00f6\u00dfe/a.csv", "\\\\?\\C:\\long", "//server/x")
  expect_identical(r_path(paths, "windows"), plain)
  expect_identical(r_path("a\\b", "unix"), "a\\b") # a character of the name
  expect_null(r_path(NULL, "windows"))
})
