#' Talk to a model
#'
#' @description
#' `chat()` starts a conversation: the model reads each question together with all earlier questions
#' and answers. In the console the answer appears while it is generated, with thoughts dimmed. A
#' conversation can share its context with other calls.
#'
#' @section Methods:
#' * `$ask(text, ..., echo)` asks a question and returns the answer, a string, invisibly if it was
#'   printed. `...` are settings for this question only.
#' * `$retry(..., echo)` asks the last question again; the new answer replaces the last one.
#' * `$ask_all(texts, ..., progress, verbosity)` asks many questions in one batch, each after the
#'   conversation so far, and returns a `llamaherd_result`, see [generate_parallel()]. The
#'   conversation does not change.
#' * `$turns()` returns a data frame with a row per message: `role`, `content`, `thinking` (the
#'   thought before an answer, NA if there is no thought) and `interrupted`.
#' * `$last()` returns a list with the last answer, its thought and the numbers of tokens of both;
#'   NULL without an answer, and after `$undo()`.
#' * `$fork(n)` returns a list of n independent conversations that continue this one; without `n` it
#'   returns one conversation.
#' * `$undo()` removes the last question with its answer. `$forget(n)` removes the n oldest
#'   questions with their answers, which frees tokens in the context. `$undo()` and `$forget()`
#'   return the removed messages.
#' * `$system(text)` sets the system message for later questions; without `text` it returns the
#'   current message.
#' * `$close()` frees the context of a conversation that was started with a model. `$turns()` still
#'   returns the messages, also those of a conversation that was saved, for example by
#'   [save.image()], and read in another session; `chat(context, turns = )` continues them.
#'
#' Ctrl-C ends an answer. The conversation keeps the text generated so far and marks the answer as
#' `interrupted`.
#'
#' @param context A context from [context_create()]. For a model from [model_load()] the function
#'   creates a context for this conversation.
#' @param system Text of a system message. NULL sends none.
#' @param ... Settings for all questions, by name: the sampling settings of [generate()] and
#'   [sampling_options()], `thinking`, `variables`, `template`, `prefix`,
#'   `merge_system` and `show_schema`.
#'   `max_tokens` is 1,024 by default, or less if fewer tokens remain in the context.
#' @param turns Earlier conversation to continue: a data frame like the return value of `$turns()`,
#'   or a list of messages `list(role = "user", content = "...")`.
#' @param echo TRUE prints answers while they are generated.
#' @returns A `llamaherd_chat`, which is an environment: `$ask()` changes the conversation in place,
#'   and a copy of the object refers to the same conversation.
#' @seealso [thinking()], [generate_parallel()] for many independent prompts
#' @concept conversation
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' talk <- chat(model, "Answer in one sentence.", max_tokens = 30)
#' talk$ask("Name a river in France.", echo = FALSE)
#' talk$ask("How long is it?", echo = FALSE)
#' talk$turns()
#'
#' # Three continuations of the same conversation:
#' lapply(talk$fork(3), \(branch) branch$ask("Name another one.", temperature = 0.8, echo = FALSE))
#' talk$close()
#' close(model)
chat <- function(context, system = NULL, ..., turns = NULL, echo = interactive()) {
  check_given(context)
  object <- if (inherits(context, "llamaherd_model")) {
    check_model(context)
  } else {
    check_context(context)
  }
  system <- py_value(system)
  settings <- chat_settings(list(...))
  turns <- earlier_turns(turns)
  echo <- check_flag(echo)
  value <- py_call("chat_create", object, system, turns, settings)
  new_chat(value[["python"]], context, echo)
}

# Creates a conversation. `owner` is an object that must not be freed before the conversation.
new_chat <- function(python, owner, echo_default) {
  self <- new.env(parent = emptyenv())
  last <- NULL
  kept <- NULL # messages of a conversation that is closed, or that has lost its Python object
  keep <- function() try(kept <<- all_turns(python), silent = TRUE)
  python_of <- function() {
    problem <- object_problem(self)
    if (!is.null(problem)) {
      abort(
        c(
          "The conversation cannot continue: it {problem}.",
          i = "{.fn chat} continues it with another context, if its argument {.arg turns} is the
               value of {.code $turns()}."
        ),
        "context"
      )
    }
    python
  }
  answer <- function(text, settings, echo) {
    object <- python_of()
    echo <- check_flag(echo, "echo")
    started <- py_call("chat_ask", object, text, settings)
    on.exit(keep()) # also after an error
    result <- written_answer(started[["reply"]], echo)
    last <<- result
    text <- result$text %||% result$partial
    if (result$finish_reason == "cancelled") {
      interrupt("Interrupted: the conversation keeps the text so far.", text, 0L)
    }
    tell_cut(sum(result$finish_reason == "length"), 1L)
    if (echo) invisible(text) else text
  }
  self$python <- python
  self$owner <- owner
  self$ask <- function(text, ..., echo = echo_default) {
    text <- check_string(text)
    answer(text, chat_settings(list(...)), echo)
  }
  self$retry <- function(..., echo = echo_default) {
    answer(NULL, chat_settings(list(...)), echo)
  }
  self$ask_all <- function(texts, ..., progress = interactive(), verbosity = 0L) {
    if (!is.character(texts) && !is.factor(texts)) {
      abort_argument("texts", "a character vector", texts)
    }
    settings <- c(chat_settings(list(...)), on_error = "continue")
    prompts <- as_prompts(texts, "texts")
    result <- run_call(
      "chat_ask_all",
      new_result,
      python_of(),
      prompts,
      settings,
      verbosity,
      progress
    )
    keeping(result, tell_failures(result, "continue", verbosity))
    result
  }
  self$turns <- function() {
    if (is.null(object_problem(self))) all_turns(python) else kept
  }
  self$last <- function() last
  self$fork <- function(n = NULL) {
    object <- python_of()
    forks <- lapply(
      py_call("chat_fork", object, if (is.null(n)) 1L else py_value(n))[["pythons"]],
      \(fork) {
        new_chat(fork, self, echo_default) # its context may be the context of this conversation
      }
    )
    if (is.null(n)) forks[[1]] else forks
  }
  self$undo <- function() {
    gone <- py_call("chat_undo", python_of())
    last <<- NULL
    keep()
    gone
  }
  self$forget <- function(n = 1L) {
    object <- python_of()
    gone <- py_call("chat_forget", object, py_value(n))
    keep()
    gone
  }
  self$system <- function(text) {
    object <- python_of()
    if (missing(text)) {
      return(py_call("chat_turns", object)[["system"]])
    }
    py_call("chat_set_system", object, py_value(text))
    keep()
    invisible(self)
  }
  self$close <- function() close_object(self)
  class(self) <- "llamaherd_chat"
  keep()
  lockEnvironment(self, bindings = TRUE)
  self
}

# A misspelt method would be NULL in an environment, and calling it an error without a name.
#' @export
`$.llamaherd_chat` <- function(x, name) {
  if (!exists(name, envir = x, inherits = FALSE)) {
    meant <- closest(name, ls(x))
    abort(
      c(
        "A {.cls llamaherd_chat} has no method {.code ${name}()}.",
        i = if (!is.null(meant)) "Did you mean {.code ${meant}()}?",
        i = "{.code ?chat} lists the methods."
      ),
      "argument",
      NULL
    )
  }
  get(name, envir = x, inherits = FALSE)
}

#' @export
format.llamaherd_chat <- function(x, ...) {
  problem <- object_problem(x)
  turns <- x$turns()
  n <- sum(turns$role == "user")
  role <- cli::style_bold(paste0(turns$role, ":"))
  thought <- ifelse(
    is.na(turns$thinking),
    "",
    paste0(cli::col_grey(turns$thinking), "\n\n")
  )
  text <- paste0(thought, turns$content, ifelse(turns$interrupted, " [interrupted]", ""))
  c(
    paste("<llamaherd_chat>", count_of(n, "question")),
    if (nrow(turns) > 0) paste0(role, " ", text),
    if (!is.null(problem)) paste("It", problem)
  )
}

#' @export
print.llamaherd_chat <- function(x, ...) {
  show_lines(format(x, ...), most = Inf)
  invisible(x)
}

#' @export
close.llamaherd_chat <- function(con, ...) con$close()

# Waits for an answer and prints its pieces. Ctrl-C cancels the answer; the result then has the text
# so far.
written_answer <- function(reply, echo) {
  suspendInterrupts({
    ended <- FALSE
    on.exit(if (!ended) py_call("chat_cancel", reply))
    print_piece <- if (echo) piece_printer() else \(...) NULL
    n_read <- 0L
    read <- function() {
      state <- py_call("chat_read", reply, n_read, slice_s)
      texts <- as_text(state[["texts"]])
      n_read <<- n_read + length(texts)
      Map(print_piece, texts, as_text(state[["kinds"]]))
      state[["done"]]
    }
    interrupted <- is_interrupted(
      while (!read()) {
        check_interrupt()
      }
    )
    if (interrupted) {
      py_call("chat_cancel", reply)
    }
    if (echo && n_read > 0) {
      cat("\n")
    }
    result <- py_call("chat_result", reply)
    ended <- TRUE
    result
  })
}

# Dims thoughts, and writes an empty line between a thought and the answer.
piece_printer <- function() {
  before <- ""
  \(text, kind) {
    if (kind == "thinking") {
      cat(cli::col_grey(text))
    } else {
      cat(if (before == "thinking") "\n\n", text, sep = "")
    }
    before <<- kind
    utils::flush.console()
  }
}

# Converts settings of questions for Python.
chat_settings <- function(dots) {
  kinds <- c(sampling_kinds, further_kinds)
  check_dots(dots, c(names(kinds), options_of_chat))
  settings <- Map(
    \(value, name) {
      switch(
        name,
        thinking = check_thinking(value),
        variables = check_variables(value),
        template = ,
        prefix = ,
        show_schema = ,
        merge_system = py_value(value, name),
        check_sampling(value, kinds[[name]], name, 1L)
      )
    },
    dots,
    names(dots)
  )
  Filter(Negate(is.null), settings)
}

# Converts messages of an earlier conversation to the names of Python's fields.
earlier_turns <- function(turns) {
  if (length(turns) == 0 || (is.data.frame(turns) && nrow(turns) == 0)) {
    return(list())
  }
  messages <- check_messages(turns, "turns")
  if (is.data.frame(turns)) {
    more <- function(name, i) {
      value <- turns[[name]][[i]]
      if (is.null(value) || is.na(value) || isFALSE(value)) NULL else value
    }
    messages <- lapply(seq_along(messages), \(i) {
      extra <- list(
        reasoning_content = more("thinking", i),
        interrupted = more("interrupted", i)
      )
      c(messages[[i]], Filter(Negate(is.null), extra))
    })
  }
  messages
}

# Returns the messages of a conversation of Python, with its system message.
all_turns <- function(python) py_call("chat_turns", python)$turns
