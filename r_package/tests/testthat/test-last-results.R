# Calls that end in another way than by returning: their results are kept, and no job is left.

book <- \() codebook("Which?", c("yes", "no"))
# Calls a test with each function that keeps results, its name, and no results kept before.
each_call <- function(context, test, names = NULL) {
  withr::defer(the$last_results <- NULL)
  calls <- list(
    generate_parallel = \(texts) generate_parallel(context, texts, progress = FALSE),
    classify_parallel = \(texts) classify_parallel(context, texts, c("a", "b")),
    annotate_texts = \(texts) annotate_texts(data.frame(t = texts), t, book(), context),
    embed_parallel = \(texts) embed_parallel(context, texts)
  )
  for (name in names %||% names(calls)) {
    the$last_results <- NULL
    test(calls[[name]], name)
  }
  expect_identical(the$module$n_left(), 0L)
}
n_kept <- function(name) {
  kept <- last_results()
  switch(
    name,
    generate_parallel = sum(!is.na(kept)),
    embed_parallel = sum(!is.na(kept[, 1])),
    sum(!is.na(kept$label))
  )
}
local_nothing_kept <- function(env = parent.frame()) {
  the$last_results <- NULL
  withr::defer(the$last_results <- NULL, envir = env)
}

test_that("results survive a warning that becomes an error", {
  texts <- c("x", "fail it", "y")
  each_call(local_context(), \(call, name) {
    withr::with_options(list(warn = 2), expect_error(call(texts), "failed|not coded"))
    expect_identical(n_kept(name), 2L)
    the$last_results <- NULL
    expect_identical(tryCatch(call(texts), warning = \(cnd) "left"), "left")
    expect_identical(n_kept(name), 2L)
  })
})

test_that("results survive an error and a jump while R waits", {
  texts <- c("x", "full", "y")
  late <- \(cnd) stop("reached elapsed time limit")
  each_call(local_context(), \(call, name) {
    expect_identical(tryCatch(call(texts), message = \(cnd) "left"), "left")
    expect_identical(n_kept(name), 1L)
    the$last_results <- NULL
    expect_error(withCallingHandlers(call(texts), message = late), "time limit")
    expect_identical(n_kept(name), 1L)
  })
})

test_that("results survive an error of the job", {
  each_call(local_context(), \(call, name) {
    expect_error(call(c("x", "y", "break", "z")), "the engine failed")
    expect_identical(n_kept(name), 2L)
  })
})

test_that("labels survive a data frame whose class refuses columns", {
  context <- local_context()
  local_nothing_kept()
  registerS3method("[[<-", "refusing", \(x, i, value) stop("no new columns"))
  data <- structure(data.frame(t = c("x", "y")), class = c("refusing", "data.frame"))
  expect_error(annotate_texts(data, t, book(), context), "no new columns")
  expect_identical(last_results()$t, c("x", "y"))
  expect_false(anyNA(last_results()$label))
  the$last_results <- NULL
  expect_error(annotate_texts(data, paste(t, "more"), book(), context), "no new columns")
  expect_identical(last_results()$coded_text, c("x more", "y more"))
})

test_that("interrupt() stores results, and nothing replaces earlier results", {
  local_nothing_kept()
  of_call <- \(results) {
    tryCatch(interrupt("Interrupted.", results, -1L), interrupt = identity)
  }
  expect_identical(of_call(1:3)$results, 1:3)
  expect_identical(last_results(), 1:3)
  expect_null(of_call(NULL)$results)
  expect_identical(last_results(), 1:3)
})

test_that("the part that was running is kept beside the finished parts", {
  labels <- data.frame(text = c("x", "y"), label = c("a", NA))
  running <- list(
    type = "table",
    n = 2L,
    columns = list(
      list(type = "text", name = "text", values = list("x", "y")),
      list(type = "text", name = "label", values = list("a", NULL))
    )
  )
  ended <- \(finished, running) {
    from_python(list(type = "ended", finished = finished, running = running))$value
  }
  done <- list(type = "value", value = "done")
  expect_null(ended(NULL, NULL))
  expect_identical(ended(NULL, running), labels)
  expect_identical(ended(done, NULL), "done")
  expect_identical(attr(ended(done, running), "interrupted"), labels)
})

test_that("a warning at the start ends the job, and a warning at the end loses nothing", {
  # Returns how many warnings a call signals; the last of `n_muffled` and all before are muffled.
  n_warnings <- function(call, n_muffled) {
    n <- 0L
    count <- function(cnd) {
      n <<- n + 1L
      if (n <= n_muffled) tryInvokeRestart("muffleWarning")
    }
    tryCatch(
      withCallingHandlers(call(c("x", "warn")), warning = count),
      warning = \(cnd) {
        expect_gt(n, n_muffled)
      }
    )
    n
  }
  each_call(local_context(), \(call, name) {
    withr::with_options(list(warn = 2), expect_error(call(c("warn", "slow")), "it warns"))
    expect_identical(the$module$n_left(), 0L)
    # Calling handlers see both warnings, and the call returns.
    expect_identical(n_warnings(call, 2L), 2L)
    the$last_results <- NULL
    # Only the warning at the end leaves the call.
    expect_identical(n_warnings(call, 1L), 2L)
    expect_identical(n_kept(name), 2L)
  })
})

test_that("a call that returns keeps nothing", {
  each_call(local_context(), \(call, name) {
    call("x")
    expect_null(last_results())
  })
})

test_that("models that explore() finished survive the error of a later one", {
  local_fake()
  local_nothing_kept()
  rules <- list(
    list(id = "first", predictor = \(prompts, data, spec) rep("a", length(prompts))),
    list(id = "second", predictor = \(prompts, data, spec) stop("no luck"))
  )
  expect_error(explore(rules, prompts = c("x", "y")), "no luck")
  expect_identical(last_results()$annotations$label, c("a", "a"))
  expect_identical(unique(last_results()$annotations$model_id), "first")
})

test_that("rows survive an error of a sink", {
  local_fake()
  local_nothing_kept()
  models <- list(id = "first", predictor = \(prompts, data, spec) {
    rep("a", length(prompts))
  })
  full <- \(chunk, model_id) stop("the disk is full")
  expect_error(explore(models, prompts = c("x", "y"), sink = full), "disk is full")
  expect_identical(last_results()$label, c("a", "a"))
})

test_that("results without a finished prompt replace no other results", {
  texts <- c("fail it", "fail it")
  keeps <- \(call, name) {
    the$last_results <- "of the night"
    withr::with_options(list(warn = 2), expect_error(call(texts), "failed"))
    expect_identical(last_results(), "of the night")
  }
  each_call(local_context(), keeps, c("generate_parallel", "classify_parallel"))
})

test_that("held conditions are signalled as they were", {
  skip_if_not_installed("testthat") # the stand-in of tests/imports prints no messages
  long <- strrep("a long note. ", 300)
  held <- holding({
    cli::cli_inform("Thinking is cut.", class = "llamaherd_message_thinking")
    rlang::warn(long, class = "llamaherd_warning")
  })$held
  expect_output(
    signal_shown <- capture.output(
      withCallingHandlers(
        signal_held(held),
        warning = \(cnd) {
          expect_gte(getOption("warning.length"), nchar(long))
          expect_identical(conditionMessage(cnd), long)
          invokeRestart("muffleWarning")
        }
      ),
      type = "message"
    ),
    NA
  )
  expect_identical(signal_shown, "Thinking is cut.")
})
