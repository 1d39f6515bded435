local_model <- function(env = parent.frame()) {
  local_fake(env)
  model_load(local_model_file(env))
}

test_that("vectors are rows, in order, with names", {
  model <- local_model()
  vectors <- embed_parallel(model, c(a = "x", b = "three"))
  expect_identical(dim(vectors), c(2L, 2L))
  expect_identical(rownames(vectors), c("a", "b"))
  expect_identical(unname(vectors[, 1]), c(1, 5))
  expect_identical(attr(vectors, "errors"), c(NA_character_, NA_character_))
  expect_s3_class(attr(vectors, "stats"), "llamaherd_stats")
  expect_output(print(attr(vectors, "stats")), "2 texts in no time")
  expect_null(rownames(embed_parallel(model, "x")))
  expect_identical(dim(embed_parallel(model, character())), c(0L, 2L))
  expect_identical(unname(embed_parallel(model, list("x", 1:3))[, 1]), c(1, 3))
  context <- context_create(model)
  expect_identical(embed_parallel(context, "x")[1, ], c(1, 0.5))
})

test_that("arguments reach Python as it takes them", {
  model <- local_model()
  embed_parallel(model, "x", pooling = "last", truncate = TRUE, n_threads = 2)
  expect_seen(
    "model_start",
    "['x']",
    "'pooling': 'last'",
    "'truncate': True",
    "'n_threads': 2"
  )
  embed_parallel(model, "x")
  expect_seen("model_start", "'pooling': 'auto'")
  expect_seen("model_start", "'n_threads': None")
})

test_that("what fails is a row of NA, with one warning", {
  model <- local_model()
  texts <- c(a = "x", b = NA, c = "fail", d = "y")
  expect_page(vectors <- embed_parallel(model, texts))
  expect_identical(is.na(unname(vectors[, 1])), c(FALSE, TRUE, TRUE, FALSE))
  expect_false(any(is.nan(vectors[2:3, ])))
  expect_identical(
    attr(vectors, "errors"),
    c(NA, "the text is NA", "it {failed}", NA)
  )
  expect_no_warning(embed_parallel(model, texts, verbosity = -1))
  expect_page(invisible(embed_parallel(model, "x", verbosity = 2)))
})

test_that("bad arguments are named", {
  model <- local_model()
  expect_refused({
    embed_parallel("model", "x")
    embed_parallel(model, 1)
  })
  close(model)
  expect_error(embed_parallel(model, "x"), class = "llamaherd_error_model")
})

test_that("vectors print as a summary, and compute as a matrix", {
  vectors <- structure(
    matrix(seq(0, 1, length.out = 8 * 384), 8, dimnames = list(letters[1:8], NULL)),
    errors = c(rep(NA, 7), "it did"),
    class = c("llamaherd_vectors", "matrix", "array")
  )
  vectors[8, ] <- NA
  withr::local_options(width = 60)
  lines <- capture.output(print(vectors))
  expect_identical(lines[[1]], "<llamaherd_vectors> 8 texts x 384 dimensions, 1 failed")
  expect_length(lines, 8)
  expect_lte(max(nchar(lines)), 60)
  expect_match(lines[[2]], "^a +0.000 .* \\.\\.\\.$")
  expect_identical(lines[[8]], "... 2 more rows")
  expect_output(print(vectors[1:2, ]), "2 texts x 384 dimensions")
  expect_output(print(vectors[0, ]), "0 texts x 384")
  expect_output(print(unname(vectors[1, , drop = FALSE])), "[1,]", fixed = TRUE)
  expect_identical(vectors[1, 1:2], plain_matrix(vectors)[1, 1:2])
  expect_identical(dim(as.data.frame(vectors)), c(8L, 384L))
  expect_identical(tcrossprod(vectors[1:2, ]), tcrossprod(plain_matrix(vectors)[1:2, ]))
  expect_true(is.matrix(vectors))
})

test_that("vectors may be a column of a data frame, and be transposed", {
  vectors <- structure(
    matrix(c(0.5, 1, 0, 2), 2),
    errors = c(NA, NA),
    class = c("llamaherd_vectors", "matrix", "array")
  )
  plain <- plain_matrix(vectors)
  data <- data.frame(id = c("a", "b"))
  expected <- data
  data$vector <- vectors
  expected$vector <- plain
  expect_identical(capture.output(print(data)), capture.output(print(expected)))
  expect_identical(format(vectors), format(plain))
  expect_identical(t(vectors), t(plain))
})
