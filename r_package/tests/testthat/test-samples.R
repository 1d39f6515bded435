test_that("each prompt has its samples", {
  context <- local_context()
  prompts <- c(a = "draw yes no yes", b = NA, c = "draw one fail two")
  samples <- suppressWarnings(generate_parallel(
    context,
    prompts,
    n = 3,
    temperature = 1
  ))
  expect_s3_class(samples, c("llamaherd_samples", "list"), exact = TRUE)
  expect_named(samples, c("a", "b", "c"))
  expect_s3_class(samples$a, c("llamaherd_result", "character"), exact = TRUE)
  expect_identical(plain(samples$a), c("yes", "no", "yes"))
  expect_identical(plain(samples[[2]]), rep(NA_character_, 3))
  expect_identical(attr(samples$b, "errors"), rep("the prompt is NA", 3))
  expect_identical(attr(samples$c, "errors"), c(NA, "none", NA))
  expect_identical(attr(samples$c, "usage")$seed, 4e9 + 6:8)
  expect_identical(attr(samples$c, "hashes")$input, rep(sha256(prompts[["c"]]), 3))
  expect_s3_class(attr(samples, "stats"), "llamaherd_stats")
  expect_seen("model_start", "'n': 3")
  expect_null(names(generate_parallel(context, "draw a b", n = 2)))
})

test_that("samples print, are cut and make tables", {
  context <- local_context()
  samples <- suppressWarnings(generate_parallel(
    context,
    c(a = "draw yes no", b = "draw one fail"),
    n = 2
  ))
  expect_page(samples)
  expect_page(print(unname(samples), n = 1))
  part <- samples["b"]
  expect_s3_class(part, "llamaherd_samples")
  expect_named(part, "b")
  expect_identical(attr(part, "stats"), attr(samples, "stats"))
  table <- as.data.frame(samples)
  expect_identical(table$name, c("a", "a", "b", "b"))
  expect_identical(table$prompt, c(1L, 1L, 2L, 2L))
  expect_identical(table$sample, c(1L, 2L, 1L, 2L))
  expect_identical(table$text, c("yes", "no", "one", NA))
  expect_identical(names(table)[4:6], c("text", "finish_reason", "complete"))
  expect_identical(
    rownames(as.data.frame(samples, row.names = letters[1:4])),
    letters[1:4]
  )
  none <- generate_parallel(context, character(), n = 2)
  expect_s3_class(none, "llamaherd_samples")
  expect_length(none, 0)
  expect_identical(nrow(as.data.frame(none)), 0L)
  local_real()
  expect_identical(nrow(vote(none)), 0L)
})

test_that("samples fit into a column of a tibble", {
  skip_if_not_installed("tibble")
  samples <- generate_parallel(local_context(), c("draw a b", "draw c d"), n = 2)
  table <- tibble::tibble(id = 1:2, samples = samples)
  expect_identical(dim(table), c(2L, 2L))
  expect_output(print(table), "samples")
})

test_that("what goes wrong is told of samples", {
  context <- local_context()
  expect_page({
    invisible(generate_parallel(context, c(a = "x", "draw b fail"), n = 2))
    invisible(generate_parallel(
      context,
      c("x", "raw no"),
      n = 2,
      choices = list("y", c("yes", "no"))
    ))
  })
  expect_refused({
    generate_parallel(context, c("x", "draw b fail"), n = 2, on_error = "stop")
  })
})

test_that("the majority wins, and of ties what came first", {
  samples <- suppressWarnings(generate_parallel(
    local_context(),
    c(a = "draw no yes yes fail", b = "draw b a a b", c = NA),
    n = 4
  ))
  local_real()
  votes <- vote(samples)
  expect_identical(votes$name, c("a", "b", "c"))
  expect_identical(votes$majority, c("yes", "b", NA))
  expect_identical(votes$agreement, c(2 / 3, 0.5, NaN))
  expect_identical(votes$n_votes, c(3L, 4L, 0L))
  expect_identical(votes$n_failed, c(1L, 0L, 4L))
  expect_identical(votes$is_tie, c(FALSE, TRUE, FALSE))
  expect_identical(votes$shares[[1]], c(yes = 2 / 3, no = 1 / 3))
  expect_identical(votes$shares[[2]], c(b = 0.5, a = 0.5))
  expect_length(votes$shares[[3]], 0)
})

test_that("a key makes the labels", {
  whole <- generate_parallel(local_context(), c("x", "raw cut"), verbosity = -1)
  local_real()
  texts <- list(c("12 apples", "12 pears", "7"), c("x", NA, "7"))
  votes <- vote(texts, \(x) as.integer(sub(" .*", "", ifelse(grepl("^[0-9]", x), x, NA))))
  expect_identical(votes$majority, c("12", "7"))
  expect_identical(votes$n_failed, c(0L, 2L))
  expect_false("name" %in% names(votes))
  votes <- vote(whole, ~ ifelse(attr(.x, "complete"), .x, NA))
  expect_identical(votes$majority, c("x!", NA))
  expect_refused({
    vote("yes")
    vote(list(1))
    vote(list(c("a", "b")), \(x) "a")
  })
})
