test_that("placeholders are names in braces that all texts contain", {
  expect_identical(placeholders_of("Is {text} good?"), c("{text}" = "text"))
  expect_identical(placeholders_of("Is {{ text }} good?"), c("{{ text }}" = "text"))
  expect_identical(placeholders_of(c("{a} {b}", "{b}")), c("{b}" = "b"))
  others <- c("{\"text\": 1}", "\\emph{text}", "${text}", "{}", "{1}", "{a b}")
  others <- c(others, "f(x){text}", "{{{text}}}", "{text: 1}")
  for (text in others) {
    expect_length(placeholders_of(text), 0)
  }
})

test_that("a prompt with a placeholder of a variable is reported", {
  context <- local_context()
  # Runs code where a user would: outside of the package, with variables.
  user <- list2env(list(context = context, speech = c("a", "b")), parent = globalenv())
  user$generate_parallel <- generate_parallel
  user$classify_parallel <- classify_parallel
  asks <- expression(
    generate_parallel(context, "Is {speech} good?"),
    classify_parallel(context, "Is {{ speech }} good?", c("yes", "n")),
    generate_parallel(context, rep("Is {speech} good?", 2))
  )
  messages <- character()
  for (call in asks) {
    cnd <- expect_warning(eval(call, user), class = "llamaherd_warning_placeholder")
    messages <- c(messages, conditionMessage(cnd))
  }
  expect_match(messages[[1]], "`prompts` contains \"{speech}\"", fixed = TRUE)
  user$glued <- structure("{speech}", class = c("glue", "character"))
  fine <- expression(
    generate_parallel(context, rep("Is {unknown} good?", 2)),
    generate_parallel(context, "Is {unknown} good?"),
    generate_parallel(context, c("Is {speech} good?", "Is it?")),
    generate_parallel(context, "{\"speech\": \"a\"}"),
    generate_parallel(context, glued)
  )
  for (call in fine) {
    expect_no_warning(eval(call, user))
  }
})

test_that("a question with the name of a column in braces is reported", {
  context <- local_context()
  expect_warning(codebook("Is {text} good?", c("a", "b")), "stays as it is")
  expect_no_warning(book <- codebook("Is {speech} good?", c("yes", "n")))
  data <- data.frame(speech = "a")
  expect_warning(
    annotate_texts(data, speech, book, context),
    "contains \"{speech}\"",
    fixed = TRUE,
    class = "llamaherd_warning_placeholder"
  )
})

test_that("a prompt in a data mask is reported, and the search for the caller ends", {
  context <- local_context()
  user <- list2env(list(context = context, labels = c("yes", "n")), parent = globalenv())
  user$classify_parallel <- classify_parallel
  data <- data.frame(speech = c("a", "b"))
  asked <- quote(classify_parallel(context, paste("{speech}", speech), labels)$label)
  expect_warning(
    rlang::eval_tidy(asked, data, env = user),
    class = "llamaherd_warning_placeholder"
  )
  expect_warning(eval(asked, data, user), class = "llamaherd_warning_placeholder")
  skip_if_not_installed("dplyr")
  user$data <- data
  fields <- NULL
  withCallingHandlers(
    eval(bquote(dplyr::mutate(data, label = .(asked))), user),
    warning = \(w) {
      fields <<- c(fields, conditionMessage(w)) # dplyr's warning with the text of ours
      tryInvokeRestart("muffleWarning")
    }
  )
  expect_match(fields, "which stays as it is", fixed = TRUE)
})
