schema <- type_object(
  label = type_enum(c("good", "bad")),
  score = type_integer(),
  author = type_object(name = type_string())
)
prompts <- c(
  a = 'json {"label":"bad","score":3,"author":{"name":"A"}}',
  b = "fail because {it} did",
  c = NA,
  d = 'json {"label":"good","score":4,"author":{"name":"D"}}'
)

test_that("answers with a schema are a data frame", {
  skip_if_not_installed("tibble") # prints it
  context <- local_context()
  expect_page({
    answers <- generate_parallel(context, prompts, schema = schema)
    answers
  })
  expect_s3_class(answers, c("llamaherd_table", "data.frame"), exact = TRUE)
  labels <- factor(c("bad", NA, NA, "good"), levels = c("good", "bad"))
  expect_identical(answers$label, labels)
  expect_identical(answers$score, c(3L, NA, NA, 4L))
  expect_identical(answers$author, data.frame(name = c("A", NA, NA, "D")))
  expect_identical(rownames(answers), names(prompts))
  errors <- c(NA, "because {it} did", "the prompt is NA", NA)
  expect_identical(attr(answers, "errors"), errors)
  expect_identical(attr(answers, "finish_reason"), c("stop", "error", "error", "stop"))
  expect_match(attr(answers, "text")[[1]], '^[{]"label"')
  expect_s3_class(attr(answers, "stats"), "llamaherd_stats")
  expect_identical(dim(attr(answers, "usage")), c(4L, 4L))
  seen <- the$module$seen("model_start")
  expect_match(seen, '\'schema\': \'{"type":"object","properties":{"label"', fixed = TRUE)
})

test_that("a table may have dotted names, no rows or one", {
  context <- local_context()
  ask <- \(...) generate_parallel(context, prompts, schema = schema, ...)
  flat <- ask(dotted = TRUE, verbosity = -1)
  expect_named(flat, c("label", "score", "author.name"))
  none <- generate_parallel(context, character(), schema = schema)
  expect_identical(dim(none), c(0L, 3L))
  expect_identical(levels(none$label), c("good", "bad"))
  expect_output(print(none), "0 of 0 prompts")
  one <- generate(context, prompts[["a"]], schema = schema, clean = TRUE)
  expect_identical(one$score, 3L)
  failed <- "llamaherd_error_generation"
  expect_error(generate(context, "fail", schema = schema), class = failed)
  condition <- rlang::catch_cnd(ask(on_error = "stop"))
  expect_s3_class(condition$results, "llamaherd_table")
})

test_that("schemas may differ by prompt", {
  context <- local_context()
  answers <- generate_parallel(
    context,
    c('json {"a":"x"}', 'json {"a":"y","b":1}'),
    schema = list(
      type_object(a = type_enum("x")),
      type_object(a = type_enum("y"), b = type_number())
    )
  )
  expect_identical(answers$a, factor(c("x", "y")))
  expect_identical(answers$b, c(NA, 1))
  expect_seen("model_start", "'each': {'schema': [")
})

test_that("samples of data are a list of tables", {
  context <- local_context()
  samples <- generate_parallel(
    context,
    c(a = 'draw {"a":1} {"a":2}', b = 'draw {"a":3} fail', c = NA),
    schema = type_object(a = type_integer()),
    n = 2,
    verbosity = -1
  )
  expect_s3_class(samples, c("llamaherd_samples", "list"), exact = TRUE)
  expect_named(samples, c("a", "b", "c"))
  expect_s3_class(samples$a, c("llamaherd_table", "data.frame"), exact = TRUE)
  expect_identical(
    lapply(unclass(samples), `[[`, "a"),
    list(a = 1:2, b = c(3L, NA), c = c(NA_integer_, NA)),
    ignore_attr = "stats"
  )
  expect_identical(attr(samples$b, "errors"), c(NA, "none"))
  expect_identical(attr(samples$b, "text"), c('{"a":3}', NA))
  expect_output(print(samples), "3 prompts, 6 samples, 3 of them answered.*\\{\"a\":3\\}")
  table <- as.data.frame(samples)
  expect_identical(table$a, c(1:3, NA, NA, NA))
  expect_identical(table$sample, rep(1:2, 3))
  one <- generate_parallel(
    context,
    c(a = 'json {"a":1}', b = "fail"),
    schema = type_object(a = type_integer()),
    verbosity = -1
  )
  local_real()
  votes <- vote(samples)
  expect_identical(votes$name, c("a", "b", "c"))
  expect_identical(votes$majority, c('{"a":1}', '{"a":3}', NA))
  expect_identical(votes$n_failed, c(0L, 1L, 2L))
  expect_identical(vote(samples, \(x) x$a)$majority, c("1", "3", NA))
  expect_identical(vote(samples, ~ ifelse(.x$a > 1, "more", "one"))$is_tie[[1]], TRUE)
  expect_error(vote(samples, \(x) "x"), "label for each of 2 answers")
  expect_identical(vote(one)$majority, c('{"a":1}', NA))
  expect_identical(vote(one)$name, c("a", "b"))
})

test_that("a table fits into pipes", {
  skip_if_not_installed("dplyr")
  skip_if_not_installed("tibble")
  context <- local_context()
  data <- tibble::tibble(id = 1:4, text = unname(prompts), group = c(1, 1, 2, 2))
  ask <- \(text) generate_parallel(context, text, schema = schema, verbosity = -1)
  whole <- dplyr::mutate(data, ask(text))
  expect_named(whole, c("id", "text", "group", "label", "score", "author"))
  expect_identical(whole$score, c(3L, NA, NA, 4L))
  grouped <- dplyr::mutate(dplyr::group_by(data, group), ask(text))
  expect_identical(grouped$score, whole$score)
  expect_identical(grouped$label, whole$label)
  column <- dplyr::mutate(data, answer = ask(text))
  expect_identical(column$answer$score, whole$score)
  answers <- ask(prompts)
  expect_plain <- function(x) {
    expect_s3_class(x, "data.frame")
    expect_false(inherits(x, "llamaherd_table"))
    expect_null(attr(x, "errors"))
  }
  expect_plain(dplyr::filter(answers, score > 3))
  expect_plain(dplyr::arrange(answers, score))
  expect_plain(dplyr::bind_rows(answers, answers))
  expect_plain(answers[1:2, ])
  expect_plain(answers["score"])
  expect_plain(head(answers, 2))
  expect_plain(rbind(answers, answers))
  expect_plain(as.data.frame(answers))
  expect_identical(nrow(rbind(answers, answers)), 8L)
  expect_identical(answers[["score"]], answers$score)
  expect_identical(answers[1, "score"], 3L)
  table <- tibble::as_tibble(answers, rownames = "id")
  expect_identical(table$id, names(prompts))
  expect_plain(table)
  answers$more <- 1:4
  expect_s3_class(answers, "llamaherd_table")
  answers[5, "score"] <- 1L
  expect_plain(answers)
})

test_that("names of rows are names of prompts where they can be", {
  expect_identical(row_names(c("a", "b"), 2L), c("a", "b"))
  for (names in list(NULL, c("a", "a"), c("a", NA), c("a", ""))) {
    expect_identical(row_names(names, 2L), .set_row_names(2L))
  }
})

test_that("a table prints its first rows, without tibble too", {
  context <- local_context()
  answers <- generate_parallel(
    context,
    rep('json {"label":"bad"}', 30),
    schema = type_object(label = type_enum("bad"))
  )
  expect_output(print(answers, n = 3), "30 of 30 prompts.*27 more rows")
  local_mocked <- \(x) print(answers, n = 3, tibble = FALSE)
  expect_output(local_mocked(), "3 +bad\n... 27 more rows")
})
