test_that("a model loads and prints", {
  local_fake()
  model <- model_load(local_model_file())
  expect_s3_class(model, "llamaherd_model")
  expect_page(model)
  expect_false(any(grepl("[KMG]iB", format(model)))) # Python's description has the size
  expect_page(model <- model_load(local_model_file(), verbosity = 2))
  expect_identical(
    model_metadata(model),
    c(general.architecture = "fake", "gr\u00f6\u00dfe" = "\u00e4")
  )
  close(model)
  expect_page(model)
})

test_that("~ is expanded", {
  local_fake()
  path <- local_model_file()
  withr::local_envvar(HOME = dirname(path))
  skip_if(path.expand("~") != dirname(path), "HOME is fixed on this system")
  expect_s3_class(model_load("~/fake.gguf"), "llamaherd_model")
})

test_that("settings arrive with Python's types", {
  local_fake()
  model_load(local_model_file(), n_gpu_layers = -1, use_mmap = FALSE)
  expected <- "{'use_mmap': False, 'use_mlock': False, 'split_mode': 'layer', " |>
    paste0("'main_gpu': 0, 'n_gpu_layers': -1, 'check_memory': True}")
  expect_match(the$module$seen("model_load"), expected, fixed = TRUE)
})

test_that("adapters are paths, or scales named by paths", {
  local_fake()
  path <- local_model_file()
  a <- file.path(dirname(path), "a.gguf")
  b <- file.path(dirname(path), "b.gguf")
  file.copy(path, c(a, b))
  lora <- function(x) {
    model_load(path, lora = x)
    the$module$seen("model_load")
  }
  expected <- \(...) paste0("'lora': [", paste(..., sep = ", "), "]")
  one <- sprintf("['%s', 1.0]", a)
  half <- sprintf("['%s', 0.5]", b)
  expect_match(lora(a), expected(one), fixed = TRUE)
  expect_match(lora(stats::setNames(0.5, b)), expected(half), fixed = TRUE)
  expect_match(lora(stats::setNames(1:2, c(a, b))), one, fixed = TRUE)
  expect_match(lora(c(name = a)), expected(one), fixed = TRUE)
  mixed <- c(list(a), stats::setNames(list(0.5), b))
  expect_match(lora(mixed), expected(one, half), fixed = TRUE)
  expect_no_match(lora(character()), "lora")
  expect_no_match(lora(NULL), "lora")
  withr::local_envvar(HOME = dirname(path))
  skip_if(path.expand("~") != dirname(path), "HOME is fixed on this system")
  expect_match(lora("~/a.gguf"), expected(one), fixed = TRUE)
})

test_that("wrong adapters are named with their values", {
  path <- local_model_context()$model$path
  expect_refused({
    model_load(path, lora = 0.5)
    model_load(path, lora = NA)
    model_load(path, lora = c("a.gguf" = NA_real_))
    model_load(path, lora = list("a.gguf", 2))
    model_load(path, lora = list(c("a.gguf", "b.gguf")))
    model_load(path, lora = mean)
    model_load(path, lora = "no/such/adapter.gguf")
  })
  expect_error(
    model_load(path, lora = "no/such/adapter.gguf"),
    class = "llamaherd_error_model"
  )
})

test_that("Python's warnings become R's", {
  local_fake()
  path <- local_model_file()
  expect_page(model <- model_load(path, n_gpu_layers = 3))
  expect_warning(
    model_load(path, n_gpu_layers = 3),
    class = "llamaherd_warning_python"
  )
  expect_silent(model_load(path, n_gpu_layers = 3, verbosity = -1))
})

test_that("addresses, missing and wrong files are explained", {
  local_fake()
  no_model <- file.path(dirname(local_model_file()), "fake.txt")
  writeLines("text", no_model)
  expect_refused({
    model_load("https://example.org/files/tiny.gguf?download=true")
    model_load(no_model)
  })
  for (path in c("hf://x/y.gguf", "no/such/file.gguf", no_model, dirname(no_model))) {
    expect_error(model_load(path), class = "llamaherd_error_model")
  }
})

test_that("a model larger than the memory is refused", {
  local_fake()
  path <- local_model_file()
  writeBin(c(charToRaw("GGUF"), raw(1.5e6)), path)
  expect_refused(model_load(path))
  expect_s3_class(model_load(path, check_memory = FALSE), "llamaherd_model")
})
