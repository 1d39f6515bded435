test_that("a context is made and prints", {
  local_fake()
  model <- model_load(local_model_file())
  context <- context_create(model, n_ctx = "auto", n_seq_max = 8)
  expect_s3_class(context, "llamaherd_context")
  expect_page(context)
  close(context)
  expect_page(context)
})

test_that("settings arrive with Python's types", {
  local_fake()
  model <- model_load(local_model_file())
  context_create(
    model,
    n_ctx = 512,
    n_threads = NULL,
    flash_attn = "auto",
    type_k = "q8_0",
    rope_scaling_type = "yarn",
    rope_freq_base = 20000L,
    yarn_orig_ctx = 512
  )
  expected <- paste0(
    "{'n_ctx': 512, 'n_threads': None, 'n_seq_max': 'auto', 'kv_layout': 'auto', ",
    "'n_batch': None, 'flash_attn': 'auto', 'type_k': 'q8_0', ",
    "'rope_scaling_type': 'yarn', 'rope_freq_base': 20000, 'yarn_orig_ctx': 512}"
  )
  expect_match(the$module$seen("context_create"), expected, fixed = TRUE)
})

test_that("all sizes are 'auto', and what a script says counts", {
  local_fake()
  model <- model_load(local_model_file())
  seen <- function(...) {
    context_create(model, ...)
    the$module$seen("context_create")
  }
  expected <- "{'n_ctx': 'auto', 'n_threads': None, 'n_seq_max': 'auto', "
  expect_match(seen(), expected, fixed = TRUE)
  expect_match(seen(n_threads = "auto"), expected, fixed = TRUE)
  expected <- "{'n_ctx': 2048, 'n_threads': 4, 'n_seq_max': 1, "
  expect_match(seen(2048L, 4L, 1L), expected, fixed = TRUE)
})

test_that("Python's errors keep their meaning", {
  local_fake()
  model <- model_load(local_model_file())
  expect_errors(context_create(model, n_ctx = 13))
  expect_refused(context_create(model, n_ctx = 14))
  condition <- rlang::catch_cnd(context_create(model, n_ctx = 14))
  expect_s3_class(condition, c("llamaherd_error_internal", "llamaherd_error"))
  expect_match(condition$python$traceback, "Traceback")
})

test_that("a context that the memory cannot hold is refused when it is created", {
  local_real()
  path <- withr::local_tempfile(fileext = ".gguf")
  write <- reticulate::import("llamaherd.cli.tiny_run")$write_tiny_model
  write(reticulate::import("pathlib")$Path(path))
  model <- model_load(path)
  withr::defer(close(model))
  hardware <- reticulate::import("llamaherd.engine.memory.hardware")
  total_memory <- hardware$total_memory
  withr::defer(hardware$total_memory <- total_memory)
  hardware$total_memory <- function() 1e6
  expect_error(
    context_create(model, n_ctx = 1e9),
    "lower `n_ctx` to at most",
    class = "llamaherd_error_context"
  )
  expect_no_error(close(context_create(model, n_ctx = 100)))
})

test_that("a context can be many processes", {
  local_fake()
  model <- model_load(local_model_file())
  context <- context_create(
    model,
    n_seq_max = 8,
    deterministic = TRUE,
    cluster = "ray://host:10001",
    n_actors = 12,
    num_cpus = 2L
  )
  expect_s3_class(context, "llamaherd_context")
  expect_seen(
    "cluster_start",
    "'ray://host:10001'",
    "'deterministic': True, 'n_actors': 12, 'num_cpus': 2}"
  )
  expect_page(context)
  answers <- generate_parallel(context, c("a", "b"))
  actors <- attr(answers, "stats")$actors
  expect_identical(actors$actor, as.double(0:11))
  expect_identical(actors$n_done, rep(2, 12))
  expect_identical(actors$node[[1]], "größe")
  close(context)
  expect_page(context)
  expect_error(generate_parallel(context, "a"), class = "llamaherd_error_context")
})

test_that("one process has no actors", {
  stats <- attr(generate_parallel(local_context(), "a"), "stats")
  expect_null(stats$actors)
  expect_false("actors" %in% names(stats))
})

test_that("actors are one on each machine unless there is a number", {
  local_fake()
  model <- model_load(local_model_file())
  context_create(model, cluster = "local")
  expect_no_match(the$module$seen("cluster_start"), "n_actors")
  context_create(model, cluster = "host:6379", n_actors = 3)
  expect_seen("cluster_start", "'n_actors': 3}")
})

test_that("wrong clusters are named", {
  context <- local_model_context()
  expect_refused({
    context_create(context$model, cluster = 3)
    context_create(context$model, cluster = "local", n_actors = "numa")
    context_create(context$model, n_actors = 2)
    context_create(context$model, num_cpus = 2)
  })
})
