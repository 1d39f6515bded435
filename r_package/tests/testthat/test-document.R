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
  expect_identical(as.vector(log), full_path(path))
  expect_match(readLines(path), "^Duration: [0-9.]+ s$", all = FALSE)
  # After document_end() no event is written.
  generate_parallel(context, "one")
  expect_identical(attr(log, "hash"), py_call("file_sha256", path))
})

test_that("a log says how chats were rendered and models thought", {
  context <- local_context()
  path <- local_log()
  document_start(path)
  how <- thinking(32, end = "</r>")
  said <- list(mood = "calm")
  ask <- \(fun, ...) fun(context, "one", chat = TRUE, ...)
  ask(generate_parallel, system = "Be brief.", thinking = how, variables = said)
  lines <- paste(readLines(path), collapse = "\n")
  expect_match(lines, "\"system\": \"Be brief.\"", fixed = TRUE)
  expect_match(lines, "\"budget\": 32", fixed = TRUE)
  expect_match(lines, "\"mood\": \"calm\"", fixed = TRUE)
  ask(classify_parallel, c("yes", "n"), thinking = 16, n_thoughts = 3)
  lines <- paste(readLines(path), collapse = "\n")
  expect_match(lines, "\"thinking\": 16", fixed = TRUE)
  expect_match(lines, "\"n_thoughts\": 3", fixed = TRUE)
  document_end()
})

test_that("a log has all that is done with texts, and nobody's name", {
  context <- local_model_context()
  path <- local_log()
  home <- dirname(path)
  withr::local_envvar(HOME = home)
  withr::local_dir(home)
  file.copy(context$model$path, "my.gguf")
  document_start("run.txt")
  model_load("my.gguf")
  data <- data.frame(id = 1:2, text = c("x", "y"))
  book <- codebook("Which?", c(yes = "", n = ""))
  coded <- annotate_texts(data, text, book, context, verbosity = -1)
  classify_parallel(context, c("x", "y"), c("yes", "n"))
  gold_sample(coded, 2, seed = 1)
  rule <- list(id = "a", predictor = \(prompts, data, spec) prompts)
  explore(rule, prompts = "x")
  report(coded, "r.html")
  robustness(data, text, list(a = book, b = book), context)
  lines <- readLines("run.txt")
  suppressMessages(document_end())
  events <- sub("^.*[]] ", "", grep("^- ", lines, value = TRUE))
  expected <- c(
    "annotate_texts",
    "classify_parallel",
    "gold_sample",
    "report",
    "robustness"
  )
  expect_true(all(expected %in% events))
  expect_match(lines, '"path": "~/my.gguf"', fixed = TRUE, all = FALSE)
  expect_match(lines, '"working_directory": "~"', fixed = TRUE, all = FALSE)
  expect_match(lines, '"engine": "predictor"', fixed = TRUE, all = FALSE)
  hash <- lines_sha256(as.character(coded$label))
  expect_match(lines, sprintf('"output_hash": "%s"', hash), fixed = TRUE, all = FALSE)
  expect_no_match(lines, home, fixed = TRUE)
  expect_no_match(lines, '"auto"', fixed = TRUE)
  expect_no_match(lines, '"user"', fixed = TRUE)
})

test_that("a comparison with people is in the log", {
  skip_if_no_llamaherd()
  path <- local_log()
  document_start(path)
  labels <- rep(c("a", "b"), 10)
  code <- replace(labels, c(1, 4), c("b", "a"))
  validate(labels, code)
  data <- data.frame(label = labels, code = code)
  suppressWarnings(estimate(data, "code", prob = "simple", methods = "gold"))
  lines <- readLines(path)
  suppressMessages(document_end())
  expect_match(lines, "] validate$", all = FALSE)
  expect_match(lines, '"accuracy": 0.9', fixed = TRUE, all = FALSE)
  expect_match(lines, "] estimate$", all = FALSE)
  expect_match(lines, lines_sha256(code), fixed = TRUE, all = FALSE)
})

test_that("files have whole paths without their owner's name", {
  folder <- full_path(withr::local_tempdir())
  withr::local_dir(folder)
  home <- file.path(folder, "anna")
  withr::local_envvar(HOME = home, USERPROFILE = home)
  dir.create("anna")
  expect_identical(log_path("x.csv"), file.path(folder, "x.csv"))
  expect_identical(log_path(file.path(folder, "anna", "x.csv")), "~/x.csv")
  expect_identical(log_path(file.path(folder, "annabel")), file.path(folder, "annabel"))
  expect_identical(
    log_source("https://u:secret@h.org/m.gguf?token=1"),
    "https://h.org/m.gguf"
  )
  expect_identical(log_source("hf:owner/repo"), "hf:owner/repo")
  expect_identical(log_source("anna"), "~")
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
  skip_if_no_llamaherd()
  path <- local_log()
  program <- withr::local_tempfile(
    lines = c(
      sprintf("llamaherd::document_start(%s, list(a = 1))", deparse1(path)),
      "setwd(tempdir())",
      "llamaherd:::document_event('here', b = 2)",
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
  expect_refused({
    document_start(path)
  })
  suppressMessages(document_end())
  expect_error(document_start(path), "append = TRUE")
  document_start(path, append = TRUE)
  suppressMessages(document_end())
  expect_length(grep("^llamaherd run log$", readLines(path)), 2)
  expect_refused({
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
