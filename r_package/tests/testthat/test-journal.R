test_that("the path of a journal reaches Python", {
  context <- local_context()
  generate_parallel(context, "x", journal = "run.sqlite")
  expect_match(
    the$module$seen("generate_start"),
    "'journal': 'run.sqlite'",
    fixed = TRUE
  )
  generate_parallel(context, "x", journal = "~/run.sqlite")
  expect_match(
    the$module$seen("generate_start"),
    sprintf("'journal': '%s'", r_path(path.expand("~/run.sqlite"))),
    fixed = TRUE
  )
  generate_parallel(context, "x")
  expect_no_match(the$module$seen("generate_start"), "journal", fixed = TRUE)
})

test_that("a journal becomes a data frame", {
  local_fake()
  table <- journal_read("run.sqlite")
  expect_s3_class(table, c("llamaherd_journal", "data.frame"), exact = TRUE)
  expect_identical(table$prompt, c("a", "gr\u00f6\u00dfe"))
  expect_identical(table$text, c("a!", NA))
  expect_identical(table$finish_reason, c("stop", "error"))
  expect_identical(table$complete, c(TRUE, FALSE))
  expect_identical(table$error, c(NA, "too long"))
  expect_identical(table$n_prompt_tokens, 1:2)
  expect_identical(table$n_generated_tokens, c(3L, 0L))
  expect_identical(table$seed, c(4e9, 5))
  expect_identical(table$thinking, c(NA_character_, NA))
  expect_identical(table$n_thinking_tokens, c(0L, 0L))
  expect_identical(table$thinking_complete, c(NA, NA))
  expect_identical(format(table$created[[1]], "%F %T %Z"), "2017-07-14 02:40:00 UTC")
  expect_identical(table$settings, rep("{\"max_tokens\": 3}", 2))
})

test_that("an empty journal has the same columns", {
  local_fake()
  empty <- journal_read("empty.sqlite")
  expect_identical(dim(empty), c(0L, 16L))
  kinds <- function(table) vapply(table, \(column) class(column)[[1]], "")
  expect_identical(kinds(empty), kinds(journal_read("run.sqlite")))
})

test_that("a journal that cannot be used is an error of its own class", {
  context <- local_context()
  expect_snapshot(error = TRUE, {
    generate_parallel(context, "x", journal = "bad.sqlite")
    journal_read("bad.sqlite")
  })
  expect_error(journal_read("bad.sqlite"), class = "llamaherd_error_journal")
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
  expect_no_message(bar$show(state))
  quiet <- new_bar(FALSE, verbosity = -1L)
  state$problem <- "journal: disk is full"
  expect_no_message(quiet$show(state))
})
