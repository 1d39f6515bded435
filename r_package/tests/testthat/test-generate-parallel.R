test_that("answers come in order, with names", {
  context <- local_context()
  answers <- generate_parallel(context, c(a = "x", b = "y"))
  expect_s3_class(answers, c("llamaherd_result", "character"), exact = TRUE)
  expect_identical(plain(answers), c(a = "x!", b = "y!"))
  expect_identical(attr(answers, "finish_reason"), c("stop", "stop"))
  expect_identical(attr(answers, "errors"), c(NA_character_, NA_character_))
  expect_null(names(generate_parallel(context, c("x", "y"))))
})

test_that("no prompts have no answers", {
  context <- local_context()
  for (input in list(character(), list(), factor(character()), NA[0])) {
    answers <- generate_parallel(context, input)
    expect_s3_class(answers, "llamaherd_result")
    expect_length(answers, 0)
    expect_identical(attr(answers, "errors"), character())
    expect_identical(dim(as.data.frame(answers)), c(0L, 9L))
    expect_output(print(answers), "0 of 0 prompts")
  }
})

test_that("chat prompts are what users say", {
  context <- local_context()
  say <- \(...) generate_parallel(context, ..., chat = TRUE, verbosity = -1)
  answers <- say(c(a = "x", b = NA, c = "y"), system = "Be brief.")
  expect_identical(plain(answers), c(a = "x!", b = NA, c = "y!"))
  expect_seen("model_start", "['x', None, 'y']", "'chat': True, 'system': 'Be brief.'")
  talk <- list(list(role = "user", content = "x"))
  for (prompts in list(list("a", talk), list(factor("a"), as.data.frame(talk[[1]])))) {
    say(prompts)
    expect_seen(
      "model_start",
      "['a', [{'role': 'user', 'content': 'x'}]]",
      "'system': None"
    )
  }
  generate(context, talk, chat = TRUE, verbosity = -1)
  expect_seen("model_start", "[[{'role': 'user'")
  generate_parallel(context, "x")
  expect_no_match(the$module$seen("model_start"), "chat")
  expect_refused({
    generate_parallel(context, "x", system = "Be brief.")
    generate_parallel(context, "x", chat = NA)
    generate_parallel(context, list("x", 1:3), chat = TRUE)
    generate_parallel(context, list("x", list(list(role = "user"))), chat = TRUE)
  })
})

test_that("prompts may be one, a factor, or a list of strings and token ids", {
  context <- local_context()
  answers_of <- \(prompts) plain(generate_parallel(context, prompts))
  expect_identical(answers_of("x"), "x!")
  expect_seen("model_start", "['x']")
  expect_identical(answers_of(factor(c("b", "a"))), c("b!", "a!"))
  expect_identical(
    answers_of(list(a = "x", b = 1:3, c = 7)),
    c(a = "x!", b = "6", c = "7")
  )
  expect_seen("model_start", "['x', [1, 2, 3], [7]]")
})

test_that("NA gives NA, and no prompt 'NA'", {
  context <- local_context()
  prompts <- list(c(a = "x", b = NA), list(a = "x", b = NA), list(a = "x", b = NULL))
  for (input in prompts) {
    expect_warning(
      answers <- generate_parallel(context, input),
      class = "llamaherd_warning_failed"
    )
    expect_identical(plain(answers), c(a = "x!", b = NA))
    expect_identical(attr(answers, "errors"), c(NA, "the prompt is NA"))
    expect_seen("model_start", "['x', None]")
  }
  expect_warning(answers <- generate_parallel(context, NA))
  expect_identical(plain(answers), NA_character_)
})

test_that("encodings arrive as UTF-8", {
  context <- local_context()
  latin1 <- "caf\xe9"
  Encoding(latin1) <- "latin1"
  unmarked <- "caf\xc3\xa9"
  for (prompt in list("caf\u00e9", latin1, unmarked)) {
    answers <- generate_parallel(context, c(prompt, "\u732b \U1F600"))
    expect_identical(plain(answers), c("caf\u00e9!", "\u732b \U1F600!"))
    expect_identical(Encoding(plain(answers)), c("UTF-8", "UTF-8"))
  }
  invalid <- "caf\xe9"
  Encoding(invalid) <- "UTF-8"
  expect_warning(answers <- generate_parallel(context, c(invalid, "x")))
  expect_identical(plain(answers), c(NA, "x!"))
  expect_match(attr(answers, "errors")[[1]], "not valid text")
  bytes <- "caf\xe9"
  Encoding(bytes) <- "bytes"
  for (name in list(invalid, bytes)) {
    prompts <- stats::setNames(c("x", "y"), c("a", name))
    expect_warning(
      answers <- generate_parallel(context, prompts),
      class = "llamaherd_warning_text"
    )
    expect_identical(names(answers), c("a", "caf<e9>"))
    expect_output(print(answers), "caf<e9> y!", fixed = TRUE)
  }
  expect_identical(
    names(generate_parallel(context, stats::setNames("x", latin1))),
    "caf\u00e9"
  )
  for (text in list(invalid, bytes)) {
    expect_error(
      generate_parallel(context, "x", stop = c("a", text)),
      "`stop[2]` must be valid text",
      fixed = TRUE
    )
    expect_errors(
      "`system` must be valid text" = generate_parallel(
        context,
        "x",
        chat = TRUE,
        system = text
      ),
      "`journal` must be valid text" = generate_parallel(context, "x", journal = text)
    )
  }
})

test_that("settings arrive with Python's types", {
  context <- local_context()
  generate_parallel(
    context,
    c("x", "y"),
    max_tokens = 5,
    seed = 3e9,
    stop = "\n",
    temperature = 1L,
    grammar = "root ::= \"a\"",
    mirostat = 2,
    logit_bias = c(`42` = -Inf, `7` = 1),
    stop_token_ids = c(2, 1),
    parse_special = TRUE,
    on_error = "return"
  )
  expect_seen(
    "model_start",
    "'max_tokens': 5,",
    "'seed': 3000000000",
    "'stop': ['\\n']",
    "'temperature': 1,",
    "'top_k': 40,",
    "'grammar': 'root ::= \"a\"'",
    "'mirostat': 2,",
    "'logit_bias': [[42, -inf], [7, 1.0]]",
    "'stop_token_ids': [2, 1]",
    "'ignore_eos': False",
    "'each': {}",
    "'parse_special': True",
    "'on_error': 'return'"
  )
  generate_parallel(context, "x", seed = NULL)
  expect_seen("model_start", "'seed': -1")
})

test_that("settings may have one value per prompt", {
  context <- local_context()
  generate_parallel(context, c("x", "y"), max_tokens = c(5, 6), temperature = c(0, 0.5))
  expect_seen("model_start", "'each': {'max_tokens': [5, 6], 'temperature': [0, 0.5]}")
  expect_no_match(the$module$seen("model_start"), "'max_tokens': None")
})

test_that("choices arrive as lists of texts", {
  context <- local_context()
  arrives <- function(choices, text, prompts = c("x", "y")) {
    generate_parallel(context, prompts, choices = choices)
    expect_match(the$module$seen("model_start"), text, fixed = TRUE)
  }
  arrives(c(a = "yes", b = "no"), "'choices': ['yes', 'no']")
  arrives("yes", "'choices': ['yes']")
  arrives(factor(c("no", "no"), levels = c("no", "yes")), "'choices': ['no', 'yes']")
  arrives(list(c("a", "b"), NULL), "'each': {'choices': [['a', 'b'], None]}")
  arrives(list("a", "b"), "'each': {'choices': [['a'], ['b']]}")
  arrives(list(c("a", "b")), "'choices': ['a', 'b']", "x")
  arrives(NULL, "'choices': None")
  generate(context, "x", choices = c("yes", "no"))
  expect_seen("model_start", "'choices': ['yes', 'no']", "'max_tokens': None")
})

test_that("what is cut off under a grammar or choices is told once", {
  context <- local_context()
  prompts <- c(a = "x", b = "raw {pol}", c = "raw sp", d = "fail badly")
  expect_page(answers <- generate_parallel(context, prompts, choices = c("a", "b")))
  expect_identical(attr(answers, "complete"), c(TRUE, FALSE, FALSE, FALSE))
  classes <- character()
  withCallingHandlers(
    generate_parallel(context, prompts, grammar = "root ::= \"a\""),
    warning = \(cnd) {
      classes <<- c(classes, class(cnd)[[1]])
      invokeRestart("muffleWarning")
    }
  )
  warned <- paste0("llamaherd_warning_", c("incomplete", "failed"))
  expect_setequal(classes, warned)
  expect_warning(
    generate_parallel(context, prompts[3], regex = "s.*"),
    class = warned[[1]]
  )
  # Without them, a message tells of it instead of a warning.
  call <- quote(generate_parallel(context, prompts[1:3]))
  messages <- capture_messages(expect_no_warning(eval(call)))
  expect_length(messages, 1)
  expect_match(messages, "2 of 3 answers ended at `max_tokens`", fixed = TRUE)
  expect_silent(generate_parallel(context, prompts[2:3], choices = "a", verbosity = -1))
  expect_warning(generate(context, "raw sp", choices = "sport"), class = warned[[1]])
})

test_that("failures are NA with one warning", {
  context <- local_context()
  prompts <- c(a = "x", b = "fail too {long}", c = "fail twice", d = "y")
  expect_page(answers <- generate_parallel(context, prompts))
  expect_identical(plain(answers), c(a = "x!", b = NA, c = NA, d = "y!"))
  expect_identical(attr(answers, "errors"), c(NA, "too {long}", "twice", NA))
  expect_silent(generate_parallel(context, prompts, verbosity = -1))
  expect_page(answers <- generate_parallel(context, paste("fail", 1:5)))
})

test_that("on_error = 'stop' is an error that has the results", {
  context <- local_context()
  prompts <- c("x", "fail badly")
  condition <- rlang::catch_cnd(generate_parallel(context, prompts, on_error = "stop"))
  expect_s3_class(condition, c("llamaherd_error_generation", "llamaherd_error"))
  expect_identical(plain(condition$results), c("x!", NA))
})

test_that("hashes are SHA-256 of the UTF-8 bytes", {
  context <- local_context()
  prompts <- list("raw abc", NA, c(1, 2))
  answers <- suppressWarnings(generate_parallel(context, prompts))
  hashes <- attr(answers, "hashes")
  sha256_of_abc <- "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
  expect_identical(hashes$output[[1]], sha256_of_abc)
  expect_identical(is.na(hashes$output), c(FALSE, TRUE, FALSE))
  expect_identical(is.na(hashes$input), c(FALSE, TRUE, FALSE))
  expect_identical(hashes$input[[3]], sha256("1 2"))
  expect_null(attr(generate_parallel(context, "x", hash = FALSE), "hashes"))
})

test_that("clean removes markers and white space", {
  context <- local_context()
  prompts <- c(
    a = "raw  Yes<|im_end|>\n",
    b = "raw <|im_start|>assistant\nNo",
    c = "raw <start_of_turn>model\r\na",
    d = "raw 1 < 2 | 3 > 2",
    e = NA
  )
  answers <- suppressWarnings(generate_parallel(context, prompts, clean = TRUE))
  cleaned <- c(a = "Yes", b = "No", c = "a", d = "1 < 2 | 3 > 2", e = NA)
  expect_identical(plain(answers), cleaned)
  expect_identical(attr(answers, "hashes")$output[[4]], sha256("1 < 2 | 3 > 2"))
})

test_that("verbosity 2 adds a line of statistics, and progress can be shown", {
  context <- local_context()
  expect_page(answers <- generate_parallel(context, "x", verbosity = 2))
  withr::local_options(cli.progress_show_after = 0)
  expect_identical(plain(generate_parallel(context, "x", progress = TRUE)), "x!")
})

test_that("the bar leaves room for the counts", {
  state <- list(n_done = 5L, n_total = 10L, counts = strrep("r", 37))
  expect_identical(nchar(draw_bar(state, 80)), 80L - 37L - 15L + 1L)
  expect_identical(nchar(draw_bar(state, 200)), 31L)
  expect_identical(draw_bar(state, 50), "")
  expect_match(draw_bar(replace(state, "n_done", 10L), 80), "^[^ ]+ $")
  expect_match(draw_bar(replace(state, "n_done", 0L), 80), "^ +$")
})

test_that("wrong arguments are named with their values", {
  context <- local_context()
  expect_page(generate_parallel(context, "x", choices = 1)) # numbers are labels
  expect_page(generate_parallel(context, c("x", "y"), choices = list("a", 5)))
  expect_refused({
    generate_parallel("context", "x")
    generate_parallel(context, 1:3)
    generate_parallel(context, data.frame(x = "a"))
    generate_parallel(context, list("a", TRUE))
    generate_parallel(context, list(c("a", "b")))
    generate_parallel(context, c("x", "y"), choices = list("a", "b", "c"))
    generate_parallel(context, "x", progress = "yes")
    generate_parallel(context, "x", clean = NULL)
    generate_parallel(context, "x", logit_bias = 3)
    generate_parallel(context, "x", max_new_tokens = 3)
    generate_parallel(context, "x", mirostat = 1, mirostat = 2)
  })
  expect_errors(generate_parallel(context, 1))
  close(context)
  expect_error(generate_parallel(context, "x"), class = "llamaherd_error_context")
})

test_that("a bar comes with the first state and goes at the end", {
  withr::local_options(cli.progress_show_after = 0, cli.dynamic = FALSE)
  bar <- new_bar(TRUE)
  bar$end()
  n <- length(cli::cli_progress_num())
  bar$show(list(n_done = 0L, n_total = 10L, line = "5 tokens read"))
  bar$show(list(n_done = 1L, n_total = 20L, line = "1 prompt/s"))
  bar$end()
  bar$end()
  expect_identical(cli::cli_progress_num(), 0L)
})

test_that("a job's messages are told once, whether there is a bar or not", {
  bar <- new_bar(FALSE)
  state <- list(n_done = 1, n_total = 2, messages = "one {1}")
  expect_message(bar$show(state), "one {1}", fixed = TRUE)
  expect_silent(bar$show(state))
  state$messages <- c("one {1}", "two")
  expect_message(bar$show(state), "two", fixed = TRUE)
  expect_silent(new_bar(FALSE, verbosity = -1L)$show(state))
})

test_that("progress bars stay out of knitted documents", {
  skip_if_not_installed("knitr") # withr calls it in such documents
  # The functions of withr would use knitr's environment.
  old <- options(knitr.in.progress = TRUE)
  on.exit(options(old))
  expect_false(shows_progress(TRUE))
  bar <- new_bar(TRUE)
  expect_silent(bar$show(list(n_total = 2L, n_done = 1L, line = "")))
  options(old)
  expect_true(shows_progress(TRUE))
  expect_false(shows_progress(FALSE))
})
