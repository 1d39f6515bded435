test_that("the path of a journal reaches Python", {
  context <- local_context()
  generate_parallel(context, "x", journal = "run.sqlite")
  expect_seen("model_start", "'journal': 'run.sqlite'")
  generate_parallel(context, "x", journal = "~/run.sqlite")
  expect_match(
    the$module$seen("model_start"),
    sprintf("'journal': '%s'", r_path(path.expand("~/run.sqlite"))),
    fixed = TRUE
  )
  generate_parallel(context, "x")
  expect_no_match(the$module$seen("model_start"), "journal", fixed = TRUE)
})

test_that("a journal becomes a data frame, of the same types without rows", {
  context <- local_model_context()
  path <- withr::local_tempfile()
  prompts <- c("a", "gr\u00f6\u00dfe")
  answers <- generate_parallel(
    context,
    prompts,
    max_tokens = 3,
    seed = 4e9,
    journal = path
  )
  table <- journal_read(path)
  expect_s3_class(table, c("llamaherd_journal", "data.frame"), exact = TRUE)
  expect_setequal(table$prompt, prompts)
  expect_identical(table$text, plain(answers)[match(table$prompt, prompts)])
  expect_type(table$complete, "logical")
  expect_type(table$n_prompt_tokens, "integer")
  expect_type(table$seed, "double")
  expect_s3_class(table$created, "POSIXct")
  expect_identical(attr(table$created, "tzone"), "UTC")
  kinds <- function(table) vapply(table, \(column) class(column)[[1]], "")
  unlink(path)
  generate_parallel(context, character(), journal = path)
  empty <- journal_read(path)
  expect_identical(kinds(empty), kinds(table))
})

test_that("a journal that cannot be used is an error of its own class", {
  context <- local_model_context()
  path <- withr::local_tempfile(lines = "no journal")
  expect_error(
    generate_parallel(context, "x", journal = path),
    class = "llamaherd_error_journal"
  )
  expect_error(journal_read(path), class = "llamaherd_error_journal")
})

test_that("a journal that cannot be written is reported while the call runs", {
  bar <- new_bar(FALSE)
  state <- list(
    done = FALSE,
    n_total = 2,
    n_done = 1,
    problem = "journal: {x}: disk is full"
  )
  expect_message(bar$show(state), "disk is full", class = "llamaherd_message_journal")
  state$problem <- ""
  expect_message(bar$show(state), NA)
  quiet <- new_bar(FALSE, verbosity = -1L)
  state$problem <- "journal: disk is full"
  expect_message(quiet$show(state), NA)
})
