test_that("what is here is loaded without Python's help", {
  local_fake()
  path <- local_model_file()
  before <- the$module$seen("fetch_start")
  model_load(path)
  expect_identical(the$module$seen("fetch_start"), before)
})

test_that("sources are fetched, and said so", {
  local_fake()
  path <- local_model_file()
  source <- paste0("hf:there", path)
  withr::local_envvar(HF_TOKEN = "hf_of_the_session")
  expect_page(model <- model_load(source))
  expect_identical(model$path, path)
  expect_seen(
    "fetch_start",
    "'force': False, 'check_memory': True",
    "'token': 'hf_of_the_session'"
  )
  expect_silent(model_load(source, verbosity = -1))
  suppressMessages(
    model_load(source, "/cache", force_redownload = TRUE, hf_token = "hf_own")
  )
  expect_seen("fetch_start", "'force': True", "'cache_dir': '/cache', 'token': 'hf_own'")
  suppressMessages(model_load(source, n_gpu_layers = "auto"))
  suppressMessages(suppressWarnings(model_load(source, n_gpu_layers = 3)))
  expect_seen("fetch_start", "'check_memory': False")
})

test_that("a download that fails is an error of the model", {
  local_fake()
  expect_error(
    suppressMessages(model_load("hf:a/b")),
    "hf:a/b {is} not there",
    fixed = TRUE,
    class = "llamaherd_error_model"
  )
})

test_that("download_model() returns the path, and copies on request", {
  local_fake()
  path <- local_model_file()
  source <- paste0("hf:there", path)
  suppressMessages({
    expect_identical(download_model(source), path)
    copy <- file.path(dirname(path), "copy.gguf")
    expect_identical(download_model(source, copy), copy)
    expect_identical(readLines(copy), "GGUF")
    nowhere <- file.path(dirname(path), "no", "such", "copy.gguf")
    expect_errors("cannot be used" = suppressWarnings(download_model(source, nowhere)))
  })
})

test_that("models on this computer are data frames", {
  local_fake()
  models <- list_cached_models()
  expect_identical(models$name, c("base.gguf", "small-Instruct.gguf"))
  expect_s3_class(models$modified, "POSIXct")
  expect_message(empty <- list_cached_models("/empty"), "There are no models")
  expect_identical(names(empty), names(models))
  expect_identical(nrow(empty), 0L)
  ollama <- list_ollama_models()
  expect_identical(ollama$name, "llama3.2:1b")
  expect_identical(ollama$tag, "1b")
  expect_identical(ollama$model, "llama3.2")
  expect_identical(nrow(list_ollama_models(min_size_mb = 0)), 2L)
  expect_identical(nrow(list_ollama_models(1e6)), 0L)
  expect_identical(get_model_cache_dir(), "/cache")
})

test_that("a token is set and never shown", {
  withr::local_envvar(HF_TOKEN = NA)
  expect_identical(set_hf_token(" hf_secret "), "hf_secret")
  expect_identical(Sys.getenv("HF_TOKEN"), "hf_secret")
  expect_invisible(set_hf_token("hf_secret"))
  expect_refused({
    set_hf_token("hf secret")
    set_hf_token(NA)
    set_hf_token("hf_secret", persist = TRUE)
  })
  skip_if_no_llamaherd()
  path <- withr::local_tempfile(lines = c("A=1", "HF_TOKEN=old"))
  set_hf_token("hf_new", persist = TRUE, renviron_path = path)
  expect_identical(readLines(path), c("A=1", "HF_TOKEN=hf_new"))
})

test_that("the fastest file is looked for once", {
  local_fake()
  path <- local_model_file()
  folder <- dirname(path)
  file.copy(path, file.path(folder, "fast.gguf"))
  expect_message(
    model <- model_load(path, cache_dir = folder, optimize = TRUE),
    "fastest file of 'fake.gguf'"
  )
  expect_identical(basename(model$path), "fast.gguf")
  expect_silent(model_load(path, cache_dir = folder, optimize = TRUE, verbosity = -1))
})

test_that("the machine prints", {
  local_fake()
  withr::defer(the$hardware <- NULL)
  machine <- hardware_profile(refresh = TRUE)
  expect_output(print(machine), "cores")
  expect_gte(machine$cpu_cores, 1L)
  expect_type(machine$gpu$source, "character")
  expect_type(machine$sizes$fits, "logical")
})

test_that("a model for examples is one that is there", {
  local_fake()
  folder <- withr::local_tempdir()
  withr::local_envvar(LLAMAHERD_TEST_SMOLLM2 = NA, LLAMAHERD_CACHE_DIR = folder)
  expect_null(llamaherd_example_model())
  file <- file.path(folder, "SmolLM2-135M-Instruct.Q8_0.llamaherd.gguf")
  writeLines("GGUF", file)
  expect_null(llamaherd_example_model())
  path <- file.path(folder, "SmolLM2-135M-Instruct.Q4_1.gguf")
  writeLines("GGUF", path)
  expect_identical(llamaherd_example_model(), path)
  other <- local_model_file()
  withr::local_envvar(LLAMAHERD_TEST_SMOLLM2 = other)
  expect_identical(llamaherd_example_model(), other)
})

test_that("scripts find the library", {
  local_fake()
  expect_true(lib_is_installed())
  expect_true(file.exists(get_lib_path()))
})
