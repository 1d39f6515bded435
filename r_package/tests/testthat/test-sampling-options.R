test_that("sampling settings are those that are given", {
  expect_identical(unclass(sampling_options()), rlang::set_names(list(), character()))
  some <- sampling_options(typical_p = 0.5, logit_bias = c(`42` = -Inf), mirostat = 2)
  expect_s3_class(some, "llamaherd_sampling")
  expect_named(some, c("typical_p", "mirostat", "logit_bias"), ignore.order = TRUE)
  expect_page(some)
  expect_length(sampling_options(logit_bias = NULL), 0)
  expect_identical(sampling_options(typical_p = c(0.5, 0.6))$typical_p, c(0.5, 0.6))
})

test_that("settings reach Python in both ways", {
  context <- local_context()
  seen <- function(...) {
    generate_parallel(context, c("a", "b"), ...)
    the$module$seen("model_start")
  }
  by_name <- seen(typical_p = 0.5, dry_breakers = "x")
  expect_match(by_name, "'typical_p': 0.5", fixed = TRUE)
  expect_identical(
    seen(sampling = sampling_options(typical_p = 0.5, dry_breakers = "x")),
    by_name
  )
  arguments <- seen(sampling = sampling_options(typical_p = c(0.5, 0.6)))
  expect_match(arguments, "'each': {'typical_p': [0.5, 0.6]}", fixed = TRUE)
  generate(context, "a", sampling = sampling_options(mirostat = 1))
  expect_seen("model_start", "'mirostat': 1")
})

test_that("defaults are Python's", {
  skip_if_no_llamaherd()
  python <- reticulate::import("llamaherd")$SamplingParams()
  plain <- function(x) {
    x <- eval(x)
    if (is.numeric(x)) as.double(x) else unlist(x)
  }
  further <- formals(sampling_options)[names(further_kinds)]
  for (name in setdiff(names(further), "logit_bias")) {
    value <- reticulate::py_to_r(reticulate::py_get_attr(python, name))
    expect_equal(plain(further[[name]]), plain(unlist(value)), info = name)
  }
  # Without a seed Python draws a new seed in each call.
  for (name in setdiff(names(sampling_kinds), "seed")) {
    value <- reticulate::py_to_r(reticulate::py_get_attr(python, name))
    for (fun in list(generate, generate_parallel)) {
      expect_equal(plain(formals(fun)[[name]]), plain(unlist(value)), info = name)
    }
  }
  fields <- reticulate::py_get_attr(python, "__dataclass_fields__")
  names <- names(reticulate::py_to_r(fields))
  expect_setequal(c(names(sampling_kinds), names(further_kinds)), names)
})
