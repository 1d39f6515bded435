local_log <- function(env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  withr::defer(the$document <- NULL, envir = env)
  file.path(folder, "run.txt")
}

test_that("a log tells what happened, at once", {
  context <- local_context()
  path <- local_log()
  expect_invisible(document_start(path, metadata = list(project = "rivers")))
  expect_match(paste(readLines(path), collapse = "\n"), "\"project\": \"rivers\"")
  generate_parallel(context, c("one", "fail x"), verbosity = -1)
  model_load(context$model$path)
  lines <- readLines(path)
  expect_match(lines, "] generate_parallel$", all = FALSE)
  expect_match(lines, "\"n_prompts\": 2", all = FALSE)
  expect_match(lines, "\"n_failed\": 1", all = FALSE)
  expect_match(lines, lines_sha256(c("one", "fail x")), all = FALSE)
  expect_match(lines, lines_sha256(c("one!", NA)), all = FALSE)
  sum <- py_call("file_sha256", context$model$path)
  expect_match(lines, sum, fixed = TRUE, all = FALSE)
  expect_message(log <- document_end(), "The log is")
  expect_identical(as.vector(log), normalizePath(path))
  expect_match(readLines(path), "^Duration: [0-9.]+ s$", all = FALSE)
  # Nothing is written after the end.
  generate_parallel(context, "one")
  expect_identical(attr(log, "hash"), py_call("file_sha256", path))
})

test_that("sha256sum agrees", {
  local_fake()
  skip_if(!nzchar(Sys.which("sha256sum")), "sha256sum is missing")
  path <- local_log()
  document_start(path)
  suppressMessages(document_end())
  withr::local_dir(dirname(path))
  said <- system2("sha256sum", c("--check", "run.txt.sha256"), stdout = TRUE)
  expect_identical(said, "run.txt: OK")
})

test_that("a log survives the end of R, and is found from another folder", {
  path <- local_log()
  program <- withr::local_tempfile(
    lines = c(
      sprintf("llamaherd::document_start(%s, list(a = 1))", deparse1(path)),
      "setwd(tempdir())",
      "llamaherd:::document_event('here', \\() list(b = 2))",
      "tools::pskill(Sys.getpid(), 9)"
    )
  )
  system2(
    file.path(R.home("bin"), "Rscript"),
    c("--vanilla", shQuote(program)),
    stdout = FALSE,
    stderr = FALSE
  )
  lines <- readLines(path)
  expect_match(lines, "] here$", all = FALSE)
  expect_match(lines, "\"b\": 2", all = FALSE)
})

test_that("logs are not nested, and no file is overwritten", {
  local_fake()
  path <- local_log()
  document_start(path)
  expect_snapshot(
    error = TRUE,
    transform = \(x) gsub(dirname(normalizePath(path)), "<folder>", x, fixed = TRUE),
    {
      document_start(path)
    }
  )
  suppressMessages(document_end())
  expect_error(document_start(path), "append = TRUE")
  document_start(path, append = TRUE)
  suppressMessages(document_end())
  expect_length(grep("^llamaherd run log$", readLines(path)), 2)
  expect_snapshot(error = TRUE, {
    document_end()
    document_start("/no/such/folder/run.txt")
    document_start(path, metadata = list(1))
  })
})

test_that("a log has a name of its own", {
  local_fake()
  withr::local_dir(withr::local_tempdir())
  withr::defer(the$document <- NULL)
  path <- document_start()
  expect_match(path, "^llamaherd_run_[0-9]{8}_[0-9]{6}[.]txt$")
  suppressMessages(document_end())
})
