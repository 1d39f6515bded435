# Run by r_user.py from the project's folder.
source("tests/strangers/r_user/start.R")

prompts <- c("What is tea?", NA, "Name a river.")
names(prompts) <- c(strrep("a very long name ", 20), "b", "c")
answers <- generate_parallel(
  context,
  prompts,
  max_tokens = 12,
  chat = TRUE,
  system = "Be brief.",
  verbosity = -1
)
lines <- capture.output(print(answers, width = 80))
tell(
  15,
  "print() shows the answers within 80 columns, with short and long names",
  nchar(lines, "width") <= 80
)
edits <- list(
  trimws,
  toupper,
  tolower,
  \(x) sub("a", "b", x),
  \(x) gsub("a", "b", x),
  \(x) substr(x, 1, 3),
  \(x) ifelse(is.na(x), "none", x),
  \(x) replace(x, 2, "none"),
  \(x) {
    x[2] <- "none"
    x
  },
  \(x) {
    x[["c"]] <- "none"
    x
  },
  \(x) {
    is.na(x) <- 1
    x
  },
  \(x) c(x, "more"),
  \(x) rep(x, 2),
  \(x) {
    length(x) <- 2
    x
  }
)
if (requireNamespace("dplyr", quietly = TRUE)) {
  edits <- c(
    edits,
    \(x) dplyr::if_else(is.na(x), x, "some"),
    \(x) dplyr::coalesce(x, "none"),
    \(x) dplyr::filter(dplyr::tibble(x = x), !is.na(x))$x
  )
}
tell(
  15,
  "an edited result is printed, subset and converted as plain text",
  vapply(
    edits,
    \(edit) {
      edited <- edit(answers)
      is_same <- identical(as.character(edited), as.character(answers))
      is_same ||
        is.null(attributes(edited[1])) ||
        identical(names(attributes(edited[1])), "names")
    },
    NA
  )
)
empty <- lapply(list(character(), list(), factor(character())), \(x) {
  generate_parallel(context, x)
})
tell(
  15,
  "an empty vector of prompts returns an empty result",
  vapply(empty, \(x) length(x) == 0 && nrow(as.data.frame(x)) == 0, NA)
)
prompts <- apply_chat_template(
  model,
  c(texts$text[1:20], NA),
  system = "Be brief."
)
one <- apply_chat_template(
  model,
  list(
    list(role = "system", content = "Be brief."),
    list(role = "user", content = texts$text[[1]])
  )
)
tell(
  15,
  "apply_chat_template() accepts a vector, and NA remains NA",
  c(
    length(prompts) == 21,
    is.na(prompts[[21]]),
    !anyNA(prompts[1:20]),
    prompts[[1]] == one
  )
)
by_hand <- generate_parallel(context, prompts[1:5], max_tokens = 8)
by_chat <- generate_parallel(
  context,
  texts$text[1:5],
  max_tokens = 8,
  chat = TRUE,
  system = "Be brief."
)
tell(
  15,
  "chat = TRUE returns the same answers as prompts formatted by hand",
  as.character(by_hand) == as.character(by_chat)
)
if (requireNamespace("dplyr", quietly = TRUE)) {
  table <- dplyr::mutate(
    dplyr::tibble(text = texts$text[1:5]),
    answer = generate_parallel(
      context,
      text,
      chat = TRUE,
      system = "Be brief.",
      max_tokens = 8
    ),
    prompt = apply_chat_template(model, text)
  )
  head <- capture.output(print(table, width = 80))[2:3]
  tell(
    15,
    "results and tables work in mutate(), and a tibble prints them as text",
    c(
      identical(as.character(table$answer), as.character(by_chat)),
      grepl("<chr> +<chr>", head[[2]])
    ),
    head[[2]]
  )
}
bad <- "caf\xe9"
Encoding(bad) <- "UTF-8"
bytes <- bad
Encoding(bytes) <- "bytes"
latin1 <- bad
Encoding(latin1) <- "latin1"
refused <- \(expr) {
  tryCatch(
    {
      expr
      FALSE
    },
    llamaherd_error_argument = \(cnd) TRUE
  )
}
own <- generate_parallel(
  context,
  c("a", bad, bytes, latin1),
  max_tokens = 1,
  verbosity = -1
)
named <- suppressWarnings(generate_parallel(
  context,
  setNames("a", bad),
  max_tokens = 1
))
tell(
  15,
  "invalid text: an error for this prompt; names are repaired; else an error names the argument",
  c(
    identical(is.na(as.character(own)), c(FALSE, TRUE, TRUE, FALSE)),
    names(named) == "caf<e9>",
    refused(generate_parallel(context, "a", stop = bad)),
    refused(generate_parallel(context, "a", grammar = bytes)),
    refused(generate_parallel(context, "a", chat = TRUE, system = bad)),
    refused(generate_parallel(context, "a", journal = bytes)),
    refused(apply_chat_template(model, c("a", bad))),
    refused(tokenize(model, bytes)),
    refused(model_load(bad))
  )
)
