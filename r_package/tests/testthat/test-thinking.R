columns_of_thoughts <- c("thinking", "n_thinking_tokens", "thinking_complete")

test_that("thinking() prints and checks its arguments", {
  expect_page({
    thinking()
    thinking(64, start = "<reason>", end = "</reason>", message = "\nSo:")
  })
  expect_refused({
    thinking(1.5)
    thinking(start = 3)
  })
})

test_that("arguments of chats arrive in Python", {
  context <- local_context()
  seen <- function(...) {
    generate_parallel(context, "a", chat = TRUE, ...)
    the$module$seen("model_start")
  }
  arrives <- \(text, ...) expect_match(seen(...), text, fixed = TRUE)
  arrives("'chat': True, 'system': None, 'merge_system': False,")
  expect_no_match(seen(), "'thinking'|'variables'|'template'|'prefix'")
  arrives("'thinking': False", thinking = FALSE)
  arrives("'thinking': 64,", thinking = 64)
  arrives(
    "'thinking': {'budget': 8, 'end': '</r>'}",
    thinking = thinking(8, end = "</r>")
  )
  arrives(
    "'variables': {'low': True, 'n': 2, 'effort': 'low'}",
    variables = list(low = TRUE, n = 2L, effort = "low")
  )
  arrives(
    "'template': '{{ x }}', 'prefix': 'So', 'merge_system': True",
    template = "{{ x }}",
    prefix = "So",
    merge_system = TRUE
  )
})

test_that("arguments of chats are checked", {
  context <- local_context()
  expect_refused({
    generate_parallel(context, "a", thinking = 64)
    generate(context, "a", prefix = "So")
    classify_parallel(context, "a", c("x", "y"), template = "t")
    generate(context, "a", chat = TRUE, variables = list(1))
  })
  expect_no_error(generate(context, "a", thinking = FALSE))
})

test_that("results have thoughts", {
  thoughts <- data.frame(c("Hm.", NA, "So"), c(3L, NA, 64L), c(TRUE, NA, FALSE))
  names(thoughts) <- columns_of_thoughts
  fields <- data.frame(thinking = 1:3, x = 4:6)
  expect_named(
    with_thoughts(fields, thoughts),
    c("thinking", "x", ".thinking", columns_of_thoughts[-1])
  )
  expect_identical(with_thoughts(fields, NULL), fields)
})

expect_missing <- function(frame, rows, columns = columns_of_thoughts) {
  for (column in columns) {
    expect_identical(which(is.na(frame[[column]])), rows, info = column)
  }
}

# A template like the templates of models that think. The model was not trained to think, so a
# thought is an ordinary continuation, and is ended when its budget is used up.
template_that_thinks <- paste0(
  "{% for message in messages %}<|im_start|>{{ message['role'] }}\n",
  "{{ message['content'] }}<|im_end|>\n{% endfor %}",
  "{% if add_generation_prompt %}<|im_start|>assistant\n",
  "{% if enable_thinking is defined and enable_thinking is false %}",
  "<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}"
)

# Returns a function that calls another one with the template and more arguments.
with_template <- function(fun, ..., template = template_that_thinks, verbosity = -1L) {
  fixed <- list(..., chat = TRUE, template = template, verbosity = verbosity)
  \(...) rlang::exec(fun, !!!fixed, ...)
}

test_that("a model thinks before it answers", {
  context <- local_model_context()
  prompts <- c(a = "Is a whale a fish?", b = NA)
  ask <- with_template(generate_parallel, context, prompts)
  answers <- ask(thinking = 8, choices = c("yes", "no"))
  expect_true(answers[["a"]] %in% c("yes", "no"))
  expect_identical(is.na(as.character(answers)), c(FALSE, TRUE))
  table <- as.data.frame(answers)
  expect_type(table$thinking, "character")
  expect_missing(table, 2L, columns_of_thoughts[1:2])
  expect_true(table$n_thinking_tokens[[1]] %in% 1:64)
  expect_true(attr(answers, "stats")$n_thoughts == 1)
  expect_identical(attr(answers[1], "thoughts")$thinking, table$thinking[[1]])

  journal <- withr::local_tempfile()
  ask(thinking = 8, choices = c("yes", "no"), journal = journal)
  stored <- journal_read(journal)
  stored <- stored[stored$finish_reason != "error", ]
  expect_identical(trimws(stored$thinking), table$thinking[1])
  expect_identical(stored$n_thinking_tokens, table$n_thinking_tokens[1])
  expect_identical(stored$thinking_complete, FALSE)

  schema <- type_object(fish = type_boolean())
  frame <- ask(thinking = 8, schema = schema)
  expect_named(frame, c("fish", columns_of_thoughts))

  expect_null(attr(ask(thinking = FALSE, max_tokens = 4), "thoughts"))
  expect_null(attr(ask(choices = c("yes", "no")), "thoughts"))
})

test_that("a model that would think says so once where it does not", {
  context <- local_model_context()
  prompts <- c("Is a whale a fish?", "Is a cod a fish?")
  ask <- with_template(generate_parallel, context, prompts, verbosity = 0L)
  expect_message(ask(choices = c("yes", "no")), "`thinking = 256` lets it think")
})

test_that("labels are scored after several thoughts", {
  context <- local_model_context()
  prompts <- c(a = "Is a whale a fish?", b = NA, c = "Is a cod a fish?")
  classify <- with_template(classify_parallel, context, prompts, c("yes", "no"))
  classes <- classify(thinking = 6, n_thoughts = 3)
  columns <- c("label", "prob", "margin", "entropy", "coverage", "p_yes", "p_no")
  expect_named(classes, c(columns, "between", columns_of_thoughts))
  expect_identical(row.names(classes), names(prompts))
  expect_missing(classes, 2L, c("between", columns_of_thoughts))
  expect_false(any(classes$thinking_complete, na.rm = TRUE))
  expect_gte(classes$n_thinking_tokens[[1]], 18L)
  spread <- attr(classes, "between")
  expect_identical(dimnames(spread), list(NULL, c("yes", "no")))
  label <- as.character(classes$label[c(1, 3)])
  at <- cbind(c(1, 3), match(label, c("yes", "no")))
  expect_identical(classes$between[c(1, 3)], unname(spread[at]))

  one <- classify(thinking = 6)
  expect_null(one$between)
  expect_type(one$thinking, "character")
  expect_named(classify(thinking = FALSE), columns)
  fitted <- calibrated(classes, calibrate_batch(classes))
  chosen <- cbind(c(1, 3), as.integer(fitted$label)[c(1, 3)])
  expect_identical(fitted$between[c(1, 3)], unname(spread[chosen]))
})

test_that("continuations have the thought before them", {
  context <- local_model_context()
  score <- with_template(score_parallel, context, c("Is a whale a fish?", NA))
  scores <- score(list(c("yes", "no"), "no"), thinking = thinking(6))
  expect_identical(scores$prompt, c(1L, 1L, 2L))
  expect_missing(scores, 3L)
  expect_identical(scores$thinking[[1]], scores$thinking[[2]])
  expect_false(any(scores$thinking_complete, na.rm = TRUE))
})

test_that("texts are coded after thoughts, with the options of a chat", {
  context <- local_model_context()
  # The template refuses a system role, and writes a variable and the date.
  template <- paste0(
    "{% for m in messages %}{% if m.role == 'system' %}",
    "{{ raise_exception('System role not supported') }}{% endif %}",
    "<|im_start|>{{ m.role }}\n{{ strftime_now('%Y-%m-%d') }} {{ mood }}\n",
    "{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n<think>\n",
    "{% if enable_thinking is defined and enable_thinking is false %}\n</think>\n\n",
    "{% endif %}"
  )
  data <- data.frame(
    id = 1:4,
    text = c("The keeper saved it.", NA, "Parliament met.", "The keeper saved it.")
  )
  book <- codebook("Which topic?", c("Sports", "Politics"), system = "Be brief.")
  code <- function(book, ..., in_context = context) {
    annotate_texts(
      data,
      text,
      book,
      in_context,
      chat = TRUE,
      template = template,
      variables = list(mood = "calm"),
      merge_system = TRUE,
      date = as.Date("2026-01-31"),
      ...
    )
  }
  coded <- code(book, thinking = 6, n_thoughts = 2, columns = "x_")
  names <- paste0("x_", c("between", columns_of_thoughts, "error"))
  expect_identical(utils::tail(names(coded), 5), names)
  expect_missing(coded, 2L, names[2:4])
  expect_false(any(coded$x_thinking_complete, na.rm = TRUE))
  expect_identical(coded$x_thinking[[1]], coded$x_thinking[[4]])
  expect_true(all(is.na(coded$x_error)))
  run <- attr(coded, "llamaherd")$run
  expect_identical(run$settings$date, "2026-01-31")
  expect_identical(run$settings$variables, list(mood = "calm"))
  expect_identical(run$settings$n_thoughts, 2L)
  expect_identical(run$settings$thinking$budget, 6L)
  expect_match(run$thinking$methods, "2 thoughts of at most 6 tokens")

  schema <- type_object(thinking = type_boolean())
  fields <- code(codebook("A fish?", schema = schema), thinking = thinking(6))
  columns <- c("thinking", ".thinking", columns_of_thoughts[-1], "error")
  expect_identical(names(fields)[-(1:2)], columns)
  expect_type(fields$thinking, "logical")
  expect_type(fields$.thinking, "character")
  several <- codebook("Which?", c("a", "b"), type = "multiple")
  expect_type(code(several, thinking = 4)$n_thinking_tokens, "integer")

  fresh <- context_create(model_load(llamaherd_example_model()))
  expect_message(code(book, in_context = fresh), "`thinking = 256` lets it think")
})

test_that("budgets of thinking are variants", {
  context <- local_model_context()
  data <- data.frame(text = c("The keeper saved it.", "Parliament met."))
  book <- codebook("Which topic?", c("Sports", "Politics"))
  compare <- function(thinking, chat = TRUE, ...) {
    fixed <- list(
      chat = chat,
      template = if (chat) template_that_thinks,
      thinking = thinking
    )
    rlang::inject(robustness(data, text, book, context, !!!fixed, ...))
  }
  comparison <- compare(list(FALSE, 4, thinking(8)))
  expect_identical(comparison$summary$variant, paste("thinking", c("off", "4", "8")))
  expect_named(comparison$costs, c("variant", "seconds", "tokens", "thinking_tokens"))
  expect_identical(comparison$costs$thinking_tokens[[1]], 0)
  expect_true(all(diff(comparison$costs$thinking_tokens) > 0))
  expect_output(print(comparison), "cost per text:.*of them in thoughts")
  same <- compare(c(0, 4), n_thoughts = 2)
  expect_identical(same$summary$variant, c("thinking 0", "thinking 4"))
  single <- compare(thinking(4), orders = 1)
  expect_identical(nrow(single$summary), 2L)
  expect_true(all(single$costs$thinking_tokens > 0))
  expect_error(compare(list(FALSE, 4, 4)), "`thinking\\[3\\]` occurs twice")
  expect_error(compare("on"), "thinking")
  expect_error(compare(list()), "nothing to compare")
  # The error occurs before any text is coded.
  expect_error(compare(list(FALSE, 4), chat = FALSE), "needs `chat = TRUE`")
})

test_that("the date of chat templates can be fixed", {
  context <- local_model_context()
  dated <- "{% for m in messages %}{{ strftime_now('%Y-%m-%d') }} {{ m.content }}{% endfor %}"
  prompt <- function() apply_chat_template(context$model, "a", template = dated)
  today <- prompt()
  expect_identical(with_chat_date("2026-01-31", prompt()), "2026-01-31 a")
  nested <- with_chat_date(as.Date("2026-01-31"), {
    c(with_chat_date("1999-12-31", prompt()), with_chat_date(NULL, prompt()), prompt())
  })
  expect_identical(nested, c("1999-12-31 a", "2026-01-31 a", "2026-01-31 a"))
  expect_error(with_chat_date("2026-01-31", stop("no")), "no")
  expect_identical(prompt(), today)
  expect_error(with_chat_date("2026-02-30", prompt()), "must be like")
  expect_error(with_chat_date(as.Date(NA), prompt()), "a <Date> of length 1")
  expect_error(with_chat_date(code = prompt()), "`date` is missing")

  journal <- withr::local_tempfile()
  n_journal <- function(day) {
    ask <- with_template(generate_parallel, context, c("a", "b"), template = dated)
    answers <- with_chat_date(day, ask(max_tokens = 2, journal = journal))
    attr(answers, "stats")$n_journal
  }
  expect_identical(n_journal("2026-01-31"), 0)
  expect_identical(n_journal("2026-01-31"), 2)
  expect_identical(n_journal("2026-02-01"), 0)
})
