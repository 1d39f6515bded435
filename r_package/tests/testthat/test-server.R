# Tests a server of a tiny model in a separate process.
local_server <- function(name = "default", env = parent.frame()) {
  local_real(env)
  folder <- withr::local_tempdir(.local_envir = env)
  servers <- file.path(folder, "servers")
  withr::local_envvar(LLAMAHERD_SERVERS = servers, .local_envir = env)
  path <- file.path(folder, "tiny.gguf")
  write <- reticulate::import("llamaherd.cli.tiny_run")$write_tiny_model
  write(reticulate::import("pathlib")$Path(path))
  server <- server_start(path, name, n_threads = 1)
  withr::defer(server_stop(name), envir = env)
  server
}

test_that("an engine elsewhere answers, labels, embeds and codes as a context does", {
  skip_on_cran()
  server <- local_server()
  expect_s3_class(server, "llamaherd_server")
  expect_false(any(grepl(server$key(), c(format(server), deparse(unclass(server)[1:6])))))
  saved <- serialize(server, NULL)
  expect_length(grepRaw(server$key(), saved, fixed = TRUE), 0L)
  expect_identical(unserialize(saved)$key(), server$key())
  status <- server_status()
  expect_identical(status$name, "default")
  expect_identical(dirname(status$folder), r_path(Sys.getenv("LLAMAHERD_SERVERS")))
  expect_true(status$running)

  engine <- connect(server)
  withr::defer(close(engine))
  expect_match(
    format(engine),
    "<llamaherd_engine> tiny at http://127.0.0.1",
    fixed = TRUE
  )
  context <- context_create(model_load(server$model), n_threads = 1)
  texts <- c(x = "a", y = NA, z = "b")
  sent <- suppressWarnings(generate_parallel(engine, texts, max_tokens = 3L))
  here <- suppressWarnings(generate_parallel(context, texts, max_tokens = 3L))
  expect_identical(as.vector(sent), as.vector(here))
  expect_identical(names(sent), names(texts))
  expect_identical(
    generate(engine, "a", choices = c("yes", "no")) %in% c("yes", "no"),
    TRUE
  )

  labels <- c(pos = "good", neg = "bad")
  sent <- suppressWarnings(classify_parallel(engine, c("It is", "They are"), labels))
  here <- suppressWarnings(classify_parallel(context, c("It is", "They are"), labels))
  expect_identical(sent$label, here$label)
  expect_equal(sent$p_pos, here$p_pos, tolerance = 1e-4)

  sent <- embed_parallel(engine, c("one", "two"))
  here <- embed_parallel(context, c("one", "two"))
  expect_equal(unclass(sent)[1:2, ], unclass(here)[1:2, ], tolerance = 1e-3)

  data <- data.frame(text = c("It is", "They are"))
  tone <- codebook("Tone?", c("low", "high"), type = "ordinal")
  coded <- suppressWarnings(annotate_texts(data, text, tone, engine))
  expect_s3_class(coded$label, "ordered")
  expect_true(server_stop())
  expect_false(server_stop())
  expect_false(server_status()$running)
})

test_that("what an engine elsewhere cannot do is an error that names the argument", {
  skip_on_cran()
  server <- local_server()
  engine <- connect(server)
  expect_errors(
    "logprobs" = generate_parallel(engine, "a", logprobs = 2),
    perplexity(engine, "a")
  )
  withr::local_envvar(LAB_KEY = "wrong")
  expect_error(connect(server$url, key_variable = "LAB_KEY"), "LAB_KEY")
  message <- tryCatch(
    connect(server$url, key_variable = "LAB_KEY"),
    error = conditionMessage
  )
  expect_no_match(message, "wrong")
})

test_that("functions of jobs say what takes their place", {
  expect_error(job_submit("a"), "connect", class = "llamaherd_error_argument")
})

test_that("a server with too little memory does not start, and the error names it", {
  skip_on_cran()
  server <- local_server()
  for (model in list(server$model, c(a = server$model, b = server$model))) {
    expect_error(
      server_start(model, "small", memory = "1kB"),
      "memory of server_start\\(\\) is 0.0 MB,[^']* MB\\s+for\\s+'(tiny|a)'",
      class = "llamaherd_error"
    )
  }
})

test_that("a server has several models, and an engine names one", {
  skip_on_cran()
  local_server()
  server_stop()
  folder <- withr::local_tempdir()
  path <- file.path(folder, "tiny.gguf")
  write <- reticulate::import("llamaherd.cli.tiny_run")$write_tiny_model
  write(reticulate::import("pathlib")$Path(path))
  settings <- list(
    context.type_k = "f16",
    context.flash_attn = TRUE,
    context.type_v = "bf16",
    context.deterministic = TRUE,
    model.split_mode = "layer"
  )
  # At most one share per GPU; without a GPU any number.
  n_gpus <- length(reticulate::import("llamaherd.engine.native.shim")$gpus())
  if (n_gpus != 1) {
    settings$model.tensor_split <- c(3, 1)
  }
  server <- server_start(
    c(a = path, b = path),
    "two",
    n_threads = 1,
    memory = "1GB",
    n_gpu_layers = -1,
    settings = settings
  )
  withr::defer(server_stop("two"))
  expect_match(server$model, "^a=.*tiny.gguf, b=.*tiny.gguf$")
  texts <- vapply(
    c("a", "b"),
    \(name) generate_parallel(connect(server, name), "x", max_tokens = 3L),
    ""
  )
  expect_identical(texts[["a"]], texts[["b"]])
  expect_false(anyNA(texts))
  expect_error(connect(server, "c"), "\"c\"", class = "llamaherd_error_argument")
  skip_if(reticulate::import("llamaherd.engine.native.shim")$supports_gpu())
  log <- readLines(file.path(server$folder, "server.log"))
  expect_match(log, "n_gpu_layers is -1", fixed = TRUE, all = FALSE)
})

test_that("wrong arguments of a server are refused before it starts", {
  local_real()
  expect_refused(
    {
      server_start("m.gguf", "../x")
      server_start("m.gguf", n_ctx = 0)
      server_start("m.gguf", n_ctx = "big")
      server_start(character())
      server_start(c("m.gguf", NA))
      server_start(c("a=b" = "m.gguf"))
      server_start("m.gguf", lora = "x.gguf")
      server_start("m.gguf", memory = 16)
      server_start("m.gguf", n_gpu_layers = "all")
      server_start("m.gguf", settings = "q8_0")
      server_stop("no-such-server")
    },
    "llamaherd_error_argument"
  )
})

test_that("a server refuses settings that it does not know, or that are given twice", {
  skip_on_cran()
  server <- local_server()
  for (settings in list(list(type_k = "q8_0"), list(context.n_threads = 2L))) {
    expect_error(
      server_start(server$model, "other", n_threads = 1, settings = settings),
      paste0(names(settings), "[\"']"),
      class = "llamaherd_error_server"
    )
  }
})
