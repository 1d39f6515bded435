# Tests a server of a tiny model in a separate process.
local_server <- function(name = "default", env = parent.frame()) {
  local_real(env)
  folder <- withr::local_tempdir(.local_envir = env)
  servers <- file.path(folder, "servers")
  withr::local_envvar(LLAMAHERD_SERVERS = servers, .local_envir = env)
  path <- file.path(folder, "tiny.gguf")
  write <- reticulate::import("llamaherd.cli.tiny_model")$write_tiny_model
  write(reticulate::import("pathlib")$Path(path))
  server <- server_start(path, name, n_threads = 1)
  withr::defer(server_stop(name), envir = env)
  server
}

test_that("a job runs on a server and returns rows in order", {
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

  texts <- c(x = "a", y = NA, z = "b")
  job <- job_submit(texts, max_tokens = 3L, stop = "never", temperature = 0)
  expect_match(format(job), "generate 3 texts on the server default")
  results <- job_results(job)
  expect_identical(row.names(results), names(texts))
  expect_type(results$text, "character")
  expect_identical(is.na(results$error), c(TRUE, FALSE, TRUE))
  expect_identical(results$error[[2]], "the text is missing")
  state <- job_status(job)
  expect_identical(state$status, "completed")
  expect_true(state$done)
  expect_identical(c(state$n_requests, state$n_answered, state$n_failed), c(2L, 2L, 0L))

  picked <- job_results(job_submit("a", choices = "yes"))
  expect_identical(picked$text, "yes")
  schema <- type_object(n = type_enum(values = c("one", "two")))
  answer <- job_results(job_submit("a", schema = schema, max_tokens = 50))
  expect_true(jsonlite::fromJSON(answer$text)$n %in% c("one", "two"))

  expect_true(server_stop())
  expect_false(server_stop())
  expect_error(job_status(job), class = "llamaherd_error_server")
  expect_false(server_status()$running)
})

test_that("notes and errors of a job are in the words of R", {
  skip_on_cran()
  local_server()
  book <- codebook("Which?", labels = c("good", "bad"))
  job <- job_submit("a", "annotate", codebook = book, calibrate = "batch")
  expect_message(job_results(job), "calibrate = \"batch\" was fitted", fixed = TRUE)
  expect_error(
    job_submit("a", max_tokens = 1, max_tokens = 2),
    "`max_tokens` is given twice",
    class = "llamaherd_error_argument"
  )
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

test_that("a server has several models, and a job names one", {
  skip_on_cran()
  local_server()
  server_stop()
  folder <- withr::local_tempdir()
  path <- file.path(folder, "tiny.gguf")
  write <- reticulate::import("llamaherd.cli.tiny_model")$write_tiny_model
  write(reticulate::import("pathlib")$Path(path))
  settings <- list(
    context.type_k = "q8_0",
    context.flash_attn = TRUE,
    context.type_v = "q8_0",
    context.deterministic = TRUE,
    model.split_mode = "layer"
  )
  # At most one share per GPU; without a GPU any number.
  n_gpus <- length(reticulate::import("llamaherd.native.devices")$gpus())
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
    \(name) {
      job <- job_submit(
        "x",
        max_tokens = 3,
        temperature = 0,
        server = "two",
        model = name
      )
      job_results(job)$text
    },
    ""
  )
  expect_identical(texts[["a"]], texts[["b"]])
  unknown <- job_results(job_submit("x", server = "two", model = "c"))
  expect_match(unknown$error, "not 'c'", fixed = TRUE)
  skip_if(reticulate::import("llamaherd.native.shim")$supports_gpu())
  log <- readLines(file.path(server$folder, "server.log"))
  expect_match(log, "n_gpu_layers is -1", fixed = TRUE, all = FALSE)
})

test_that("labels of a job are factors, and names of labels are names", {
  skip_on_cran()
  local_server()
  texts <- c("It is", "They are")
  named <- c(pos = "good", neg = "bad")
  sent <- suppressMessages(job_results(job_submit(texts, "classify", labels = named)))
  context <- context_create(model_load(server_status()$model), n_threads = 1)
  here <- suppressWarnings(classify_parallel(context, texts, named))
  expect_identical(sent$label, here$label)
  expect_equal(sent$p_pos, here$p_pos, tolerance = 1e-5)
  expect_identical(
    names(sent),
    c("label", "prob", "margin", "entropy", "coverage", "p_pos", "p_neg", "error")
  )

  tone <- codebook("Tone?", c("low", "high"), type = "ordinal")
  coded <- suppressMessages(job_results(job_submit(texts, "annotate", codebook = tone)))
  expect_s3_class(coded$label, "ordered")
  expect_identical(levels(coded$label), c("low", "high"))
})

test_that("passages and quotes of a job have the form and positions of annotate_texts()", {
  local_real()
  texts <- c(a = "Caf\u00e9: Ann met Bob.", b = NA)
  rows_of <- function(rows, book) {
    json <- as.character(jsonlite::toJSON(rows, auto_unbox = TRUE, null = "null"))
    job <- list(names = names(texts), codebook = book)
    job$columns <- columns_of_task(
      "annotate",
      list(codebook = book, evidence = TRUE),
      NULL
    )
    job_frame(py_call("job_rows", json, book$content), job)
  }
  failed <- list(error = "the text is missing")
  quote <- list(quote = "Ann met", start = 6, end = 13)

  actors <- codebook("Who?", labels = c(actor = "A person."), type = "spans")
  span <- c(list(label = "actor"), quote)
  coded <- rows_of(list(list(spans = list(span), error = NULL), failed), actors)
  expect_identical(row.names(coded), names(texts))
  expect_identical(coded$error, c(NA, "the text is missing"))
  expect_s3_class(coded$spans[[1]], "data.frame")
  expect_s3_class(coded$spans[[1]]$label, "factor")
  expect_null(coded$spans[[2]])
  passages <- coded_spans(coded)
  expect_identical(passages$quote, "Ann met")
  expect_identical(substr(texts[[1]], passages$start, passages$end), "Ann met")
  none <- rows_of(list(list(spans = list(), error = NULL), failed), actors)
  expect_identical(nrow(none$spans[[1]]), 0L)

  tone <- codebook("Tone?", c("low", "high"))
  coded <- rows_of(list(c(list(label = "low"), quote, list(error = NULL)), failed), tone)
  expect_identical(coded$start, c(7L, NA))
  expect_identical(substr(texts[[1]], coded$start[[1]], coded$end[[1]]), coded$quote[[1]])

  fields <- codebook("Data", schema = type_object(n = type_integer(), why = type_quote()))
  coded <- rows_of(list(list(n = 3, why = quote, error = NULL), failed), fields)
  expect_identical(coded$n, c(3L, NA))
  expect_identical(
    substr(texts[[1]], coded$why$start[[1]], coded$why$end[[1]]),
    "Ann met"
  )
})

test_that("sizes of a server may be \"auto\", and errors name the argument", {
  expect_null(size_text("auto", "n_ctx"))
  expect_null(size_text(NULL, "n_ctx"))
  expect_identical(size_text(100000, "n_ctx"), "100000")
  expect_error(server_start("m.gguf", n_ctx = "big"), "`n_ctx`", fixed = TRUE)
  expect_error(server_start("m.gguf", n_threads = 0), "`n_threads`", fixed = TRUE)
  expect_error(
    server_start("m.gguf", settings = list(type_k = "q8_0")),
    "context.type_k",
    fixed = TRUE,
    class = "llamaherd_error_argument"
  )
})

test_that("answers that are drawn differ between equal prompts of a job", {
  skip_on_cran()
  local_server()
  drawn <- job_results(job_submit(rep("a", 4), temperature = 1, max_tokens = 12))
  expect_gt(length(unique(drawn$text)), 1)
})

test_that("batch calibration is refused for several requests", {
  skip_on_cran()
  local_server()
  tone <- codebook("Tone?", c("low", "high"))
  expect_error(
    job_submit(rep("a", 33), "annotate", codebook = tone, calibrate = "batch"),
    "more than 32 texts",
    class = "llamaherd_error_argument"
  )
  expect_error(job_submit("a", "classify"), "labels", class = "llamaherd_error_argument")
})

test_that("a job without any result has the columns of its task", {
  columns <- columns_of_task("classify", list(labels = c("a", "b")), rlang::current_env())
  frame <- typed_columns(rows_frame(list(list(error = "cancelled")), NULL), columns)
  expect_identical(
    names(frame),
    c("label", "prob", "margin", "entropy", "coverage", "p_a", "p_b", "error")
  )
  expect_identical(levels(frame$label), c("a", "b"))
  columns <- columns_of_task("generate", list(), rlang::current_env())
  frame <- typed_columns(rows_frame(list(list(error = "cancelled")), NULL), columns)
  expect_identical(frame$text, NA_character_)
  expect_identical(names(frame), c("text", "finish_reason", "error"))
})

test_that("a coding job without any result has the columns of annotate_texts()", {
  local_real()
  empty <- function(book, ...) {
    options <- list(codebook = book, ...)
    columns <- columns_of_task("annotate", options, rlang::current_env())
    typed_columns(rows_frame(list(list(error = "cancelled")), NULL), columns)
  }
  measures <- c("prob", "margin", "entropy", "coverage")
  topics <- codebook("Which?", c("a", "b"))
  frame <- empty(topics, evidence = TRUE, chat = TRUE, thinking = 20, n_thoughts = 3)
  quote <- c("quote", "start", "end", "between")
  thought <- c("thinking", "n_thinking_tokens", "thinking_complete")
  expect_named(frame, c("label", measures, "p_a", "p_b", quote, thought, "error"))
  expect_identical(frame$label, factor(NA, c("a", "b")))
  expect_identical(frame$p_a, NA_real_)
  expect_identical(frame$start, NA_integer_)
  expect_identical(frame$thinking_complete, NA)
  expect_named(empty(topics, method = "generate"), c("label", "error"))
  tone <- codebook("Tone?", c("low", "high"), type = "ordinal")
  expect_named(empty(tone), c("label", measures, "mean", "p_low", "p_high", "error"))
  several <- codebook("Which?", c("a", "b"), type = "multiple")
  frame <- empty(several)
  expect_named(frame, c("label", "coverage", "p_a", "p_b", "error"))
  expect_identical(frame$label, NA_character_)
  size <- number_scale(0, 10)
  frame <- empty(codebook("How large?", size))
  expect_named(frame, c("label", "mean", "sd", measures, "error"))
  expect_identical(frame$label, NA_integer_)
  expect_identical(columns_of_task("annotate", list(codebook = topics, cat = 1), NULL), {
    list(label = factor(levels = c("a", "b")))
  })
})

test_that("wrong arguments are refused before anything is sent", {
  local_real()
  expect_error(job_submit(1), class = "llamaherd_error_argument")
  expect_error(job_submit("a", "sort"))
  expect_error(
    job_submit("a", "annotate", codebook = "question: Who?"),
    "<llamaherd_codebook>"
  )
  expect_error(job_submit(data.frame(x = "a")), "data\\$text")
  expect_error(job_submit("a", "classify", 3), class = "llamaherd_error_argument")
  expect_error(
    job_submit("a", server = "no-such-server"),
    class = "llamaherd_error_argument"
  )
  expect_error(job_results("batch_1"), class = "llamaherd_error_argument")
  expect_error(job_status(list()), class = "llamaherd_error_argument")
  expect_error(server_start("m.gguf", "../x"), class = "llamaherd_error_argument")
  expect_error(server_start("m.gguf", n_ctx = 0), class = "llamaherd_error_argument")
  refused <- "llamaherd_error_argument"
  expect_error(server_start(character()), class = refused)
  expect_error(server_start(c("m.gguf", NA)), class = refused)
  expect_error(server_start(c("a=b" = "m.gguf")), class = refused)
  expect_error(server_start("m.gguf", lora = "x.gguf"), class = refused)
  expect_error(server_start("m.gguf", memory = 16), class = refused)
  expect_error(server_start("m.gguf", n_gpu_layers = "all"), class = refused)
  expect_error(server_start("m.gguf", settings = "q8_0"), class = refused)
  expect_error(
    server_start("m.gguf", settings = list(context.type_k = c("f16", "f32"))),
    class = refused
  )
  expect_error(
    server_start("m.gguf", settings = list(model.tensor_split = c(1, NA))),
    class = refused
  )
  twice <- list(context.type_k = "f16", context.type_k = "q8_0")
  expect_error(
    server_start("m.gguf", settings = twice),
    "context.type_k is given twice",
    class = refused
  )
  expect_error(
    server_start("m.gguf", n_ctx = 64, settings = list(context.n_ctx = 32)),
    "context.n_ctx is given twice",
    class = refused
  )
  expect_error(
    server_start("m.gguf", n_gpu_layers = 1, settings = list(model.n_gpu_layers = 2)),
    "model.n_gpu_layers is given twice",
    class = refused
  )
  expect_error(job_submit("a", model = 1), class = refused)
  expect_error(server_stop("no-such-server"), class = "llamaherd_error_argument")
})

test_that("settings become arguments of the command", {
  expect_identical(setting_flags(NULL), list())
  flags <- setting_flags(list(
    context.deterministic = TRUE,
    context.n_ctx = 1e5,
    context.type_k = "q8_0",
    model.main_gpu = 1L,
    model.tensor_split = c(3, 1.5)
  ))
  expect_identical(
    unlist(flags[c(FALSE, TRUE)]),
    c(
      "context.deterministic=true",
      "context.n_ctx=100000",
      "context.type_k=\"q8_0\"",
      "model.main_gpu=1",
      "model.tensor_split=[3,1.5]"
    )
  )
  one <- setting_flags(list(model.tensor_split = 1))
  expect_identical(one, list("--set", "model.tensor_split=[1]"))
})

test_that("options of jobs become JSON", {
  json <- options_json(
    list(
      labels = "good",
      max_tokens = 5L,
      chat = TRUE,
      system = NULL,
      stop = c("a", "b")
    ),
    rlang::current_env()
  )
  expect_identical(
    json,
    '{"labels":["good"],"max_tokens":5,"chat":true,"system":null,"stop":["a","b"]}'
  )
  topics <- list(content = '{"question":"?"}')
  class(topics) <- "llamaherd_codebook"
  expect_identical(
    options_json(list(codebook = topics), rlang::current_env()),
    '{"codebook":{"question":"?"}}'
  )
})

test_that("rows with different fields become columns", {
  rows <- list(
    list(label = "a", prob = 0.5, spans = list(list(quote = "x")), error = NULL),
    list(error = "no")
  )
  frame <- rows_frame(rows, NULL)
  expect_identical(names(frame), c("label", "prob", "spans", "error"))
  expect_identical(frame$label, c("a", NA))
  expect_identical(frame$prob, c(0.5, NA))
  expect_type(frame$spans, "list")
  expect_identical(frame$error, c(NA, "no"))
  expect_identical(nrow(rows_frame(list(), NULL)), 0L)
})

test_that("a job that does not continue says why, once", {
  states <- list(
    list(done = FALSE, errors = character()),
    list(done = FALSE, errors = "the disk {x} is full"),
    list(done = FALSE, errors = "the disk {x} is full"),
    list(done = TRUE, errors = character())
  )
  next_state <- function(job) {
    state <- states[[1]]
    states <<- states[-1]
    state
  }
  messages <- character()
  withCallingHandlers(
    wait_for_server_job(NULL, next_state),
    llamaherd_message_job = \(cnd) {
      messages <<- c(messages, conditionMessage(cnd))
      tryInvokeRestart("muffleMessage")
    }
  )
  expect_identical(messages, "! the disk {x} is full")
  expect_length(states, 0)
})
