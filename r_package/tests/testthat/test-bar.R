# Progress bars in programs of other packages. These packages are not suggested: the package calls
# none of their functions itself.

test_that("a bar is shown in a browser only where a session of Shiny is served", {
  rlang::local_options(cli.progress_handlers = NULL)
  expect_identical(bar_handlers(\() list()), c("shiny", "cli"))
  expect_identical(bar_handlers(\() NULL), "cli")
  rlang::local_options(cli.progress_handlers = c("progressr", "shiny", "say"))
  expect_identical(bar_handlers(\() NULL), c("progressr", "say"))
  expect_identical(bar_handlers(\() list()), c("progressr", "shiny", "say"))
})

test_that("the session that is being served is found", {
  skip_if_not_installed("shiny")
  shiny <- asNamespace("shiny")
  expect_null(shiny_session())
  session <- shiny$MockShinySession$new()
  expect_identical(shiny$withReactiveDomain(session, shiny_session()), session)
})

test_that("progressr ends a bar when the call ends", {
  skip_if_not_installed("progressr")
  rlang::local_options(
    cli.progress_handlers = "progressr",
    cli.progress_show_after = 0,
    progressr.enable = TRUE
  )
  seen <- character()
  call <- function() {
    bar <- new_bar(TRUE)
    # cli does not pass every state on.
    while (sum(seen == "update") < 3 && !"finish" %in% seen) {
      bar$show(list(n_done = 3L, n_total = 10L, counts = ""))
    }
    seen <<- c(seen, "last")
    bar$show(list(n_done = 10L, n_total = 10L, counts = ""))
    bar$end()
    "the result"
  }
  result <- withCallingHandlers(call(), progression = \(cnd) seen <<- c(seen, cnd$type))
  expect_identical(result, "the result")
  expect_match(paste(seen, collapse = " "), "^initiate( update)+ last( finish)+$")
})

test_that("a bar that would be full at once is not shown", {
  bar <- new_bar(TRUE)
  before <- cli::cli_progress_num()
  bar$show(list(n_done = 0L, n_total = 0L, counts = ""))
  bar$show(list(n_done = 2L, n_total = 2L, counts = ""))
  expect_identical(cli::cli_progress_num(), before)
})
