# Arguments of generate() and generate_parallel(), converted for Python.

# `env` is the frame of the function that the user called.
call_options <- function(env, dots, n) {
  further <- further_settings(env$sampling, dots, env)
  values <- c(mget(names(sampling_kinds), envir = env), further)
  kinds <- c(sampling_kinds, further_kinds)[names(values)]
  values <- Map(
    \(value, kind, name) check_sampling(value, kind, name, n, env),
    values,
    kinds,
    names(values)
  )
  each <- vapply(values, inherits, NA, "per_prompt")
  list(
    sampling = values[!each],
    each = lapply(values[each], unclass),
    parse_special = py_value(env$parse_special, "parse_special", env),
    strict = py_value(env$strict, "strict", env),
    show_schema = py_value(env$show_schema, "show_schema", env),
    retries = py_value(env$retries, "retries", env),
    logprobs = py_value(env$logprobs, "logprobs", env)
  )
}

# TRUE for prompts whose answer follows a grammar or a regular expression, or is one of several
# choices.
is_bound <- function(grammar, regex, choices, n) {
  has_choices <- if (is.list(choices)) {
    !vapply(choices, is.null, logical(1))
  } else {
    !is.null(choices)
  }
  has_text <- \(x) rep_len(nzchar(x %||% ""), n)
  unname(rep_len(has_choices, n) | has_text(grammar) | has_text(regex))
}

check_sampling <- function(x, kind, arg, n, error_call) {
  switch(
    kind,
    seed = if (is.null(x)) -1L else one_or_each(x, arg, n, error_call),
    limit = ,
    whole = ,
    number = ,
    strings = one_or_each(x, arg, n, error_call),
    texts = py_values(x, arg, error_call),
    choices = check_choices(x, arg, n, error_call),
    schema = check_schema(x, arg, n, error_call),
    sources = check_sources(x, arg, n, error_call),
    bias = check_bias(x, arg, error_call),
    tokens = as_py_list(if (!is.null(x)) check_tokens(x, arg, error_call)),
    py_value(x, arg, error_call)
  )
}

# Converts a value for all prompts, or a vector with a value for each prompt.
one_or_each <- function(x, arg, n, error_call) {
  if (n == 1 || length(x) != n) {
    return(py_value(x, arg, error_call))
  }
  structure(py_values(x, arg, error_call), class = "per_prompt")
}

# Requires one vector of texts for all prompts, or a list with one vector per prompt.
check_choices <- function(x, arg, n, error_call) {
  if (is.list(x) && n == 1 && length(x) == 1) {
    x <- x[[1]]
  }
  if (!is.list(x)) {
    return(py_values(label_set(x), arg, error_call))
  }
  if (length(x) != n) {
    must <- sprintf("a list with one character vector for each prompt (%d)", n)
    abort_argument(arg, must, x, error_call)
  }
  arg <- sprintf("%s[[%d]]", arg, seq_along(x))
  x <- Map(\(labels, name) py_values(label_set(labels), name, error_call), unname(x), arg)
  structure(unname(x), class = "per_prompt")
}

# Requires the texts of `quote_from`: one text for all prompts, or one text per prompt. NA means
# that quotes are copied from the prompt.
check_sources <- function(x, arg, n, error_call) {
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (is.null(x) || is.logical(x) && all(is.na(x)) && length(x) %in% c(1L, n)) {
    return(NULL)
  }
  if (!is.character(x) || !length(x) %in% c(1L, n)) {
    return(unreadable(x, error_call))
  }
  missing <- is.na(x)
  x[missing] <- ""
  texts <- as.list(unname(check_text(x, arg, error_call)))
  texts[missing] <- list(NULL)
  if (length(texts) == 1) texts[[1]] else structure(texts, class = "per_prompt")
}

check_bias <- function(x, arg, error_call) {
  tokens <- suppressWarnings(as.integer(names(x)))
  if (!is.numeric(x) || length(tokens) != length(x) || anyNA(tokens) || anyNA(x)) {
    abort_argument(
      arg,
      "a numeric vector with token ids as names",
      x,
      error_call
    )
  }
  unname(Map(list, tokens, as.double(x)))
}

# Returns the prompts and the options of `chat`.
chat_or_prompts <- function(x, arg, env) {
  check_given(x, arg = arg, error_call = env)
  chat <- check_flag(env$chat, "chat", env)
  system <- py_value(env$system, "system", env)
  options <- list(
    thinking = check_thinking(env$thinking, env),
    variables = if (length(env$variables) > 0) check_variables(env$variables, env),
    template = py_value(env$template, "template", env),
    prefix = py_value(env$prefix, "prefix", env),
    merge_system = py_value(env$merge_system, "merge_system", env)
  )
  options <- Filter(Negate(is.null), options)
  given <- c(
    if (!is.null(system)) "system",
    names(options)[!vapply(options, isFALSE, NA)] # thinking needs a chat
  )
  if (!chat && length(given) > 0) {
    abort("{.arg {given[[1]]}} needs {.code chat = TRUE}.", "argument", env)
  }
  prompts <- as_prompts(x, arg, env, if (chat) as_conversation else as_prompt)
  warn_placeholders(x, arg, env)
  prompts$options <- if (chat) c(list(chat = TRUE, system = system), options)
  prompts
}

# Checks the arguments that control messages and the form of the result.
check_display <- function(env) {
  list(
    verbosity = check_whole(env$verbosity, "verbosity", env),
    clean = check_flag(env$clean, "clean", error_call = env),
    hash = check_flag(env$hash, "hash", error_call = env)
  )
}

# Returns a hint for the error message if `prompts` is a value that users often pass by mistake.
prompts_hint <- function(x) {
  if (is.data.frame(x)) {
    "Take the column with the texts, such as data$text."
  } else if (is.null(x)) {
    "Is the name of a column misspelt? data$txet is NULL."
  }
}

# Returns prompts in three forms: for Python (NULL for prompts that fail in R), as text for hashes,
# and the reasons of failures. `read` is a function that converts an element of a list.
as_prompts <- function(x, arg, error_call, read = as_prompt) {
  check_given(x, arg = arg, error_call = error_call)
  if (is.factor(x) || (is.logical(x) && all(is.na(x)))) {
    x <- stats::setNames(as.character(x), names(x))
  }
  if (!(is.character(x) || is.list(x)) || is.data.frame(x)) {
    abort_argument(arg, "a character vector", x, error_call, prompts_hint(x))
  }
  if (is.character(x)) {
    text <- as_utf8(x)
    missing <- is.na(x)
    values <- as.list(unname(text))
  } else {
    missing <- unname(vapply(x, is_missing, logical(1)))
    values <- Map(
      \(prompt, i, skip) {
        if (!skip) read(prompt, sprintf("%s[[%d]]", arg, i), error_call)
      },
      unname(x),
      seq_along(x),
      missing
    )
    text <- vapply(
      values,
      \(value) if (is_messages(value)) contents(value) else paste(value, collapse = " "),
      character(1)
    )
    text[vapply(
      values,
      \(value) is.null(value) || anyNA(value),
      logical(1)
    )] <- NA
  }
  problems <- rep(NA_character_, length(x))
  problems[is.na(text)] <- sub("^the text", "the prompt", invalid_text)
  problems[missing] <- "the prompt is NA"
  values[is.na(text)] <- list(NULL)
  list(
    values = values,
    text = text,
    problems = problems,
    missing = missing,
    names = valid_names(x, arg, error_call)
  )
}

# Returns valid names. Names are only shown, so a name with invalid encoding is not an error.
valid_names <- function(x, arg, error_call) {
  names <- names(x)
  bad <- which(!is.na(names) & is.na(as_utf8(names %||% character())))
  if (length(bad) > 0) {
    Encoding(names[bad]) <- "UTF-8"
    names[bad] <- base::iconv(names[bad], "UTF-8", "UTF-8", sub = "byte")
    warn(
      c(
        "{length(bad)} name{?s} of {.arg {arg}} {?is/are} not valid text.",
        i = "The first is {.code names({arg})[{bad[[1]]}]}, changed to {.val {names[bad[[1]]]}}."
      ),
      "text",
      error_call
    )
  }
  names
}

is_missing <- function(prompt) {
  is.null(prompt) || (is.atomic(prompt) && length(prompt) == 1 && is.na(prompt))
}

as_prompt <- function(prompt, arg, error_call) {
  if (is.factor(prompt)) {
    prompt <- as.character(prompt)
  }
  if (is.character(prompt) && length(prompt) == 1) {
    return(as_utf8(prompt))
  }
  if (!is.numeric(prompt)) {
    abort_argument(arg, "a string or token ids", prompt, error_call)
  }
  check_tokens(prompt, arg, error_call)
}
