# Tests answers that are data, in R with real models.

reviews <- c(
  good = "The film was wonderful, and the actors were at their best.",
  bad = "I fell asleep after ten minutes. A waste of time.",
  none = NA
)
review <- type_object(
  "What a review of a film says.",
  sentiment = type_enum(
    c("positive", "negative"),
    "How the reviewer liked it."
  ),
  stars = type_integer("From 1 to 5."),
  words = type_array(type_enum(c("story", "actors", "length"))),
  person = type_object(
    name = type_string(),
    age = type_number(required = FALSE)
  )
)

test_that("answers that follow a schema are a data frame", {
  for (model in list(smollm2(), gemma3())) {
    context <- local_context(model = model)
    prompts <- paste0(
      schema_prompt(review),
      "\n\nReview: ",
      reviews,
      "\nAnswer: "
    )
    answers <- generate_parallel(
      context,
      stats::setNames(ifelse(is.na(reviews), NA, prompts), names(reviews)),
      schema = list(
        type = "object",
        properties = list(
          sentiment = type_enum(c("positive", "negative")),
          stars = list(type = "integer", minimum = 1, maximum = 5),
          words = list(
            type = "array",
            items = type_enum(c("story", "actors")),
            maxItems = 2
          ),
          person = type_object(likes = type_boolean())
        ),
        required = c("sentiment", "stars", "words", "person"),
        additionalProperties = FALSE
      ),
      verbosity = -1
    )
    expect_s3_class(answers, "llamaherd_table")
    expect_identical(rownames(answers), names(reviews))
    expect_identical(attr(answers, "errors"), c(NA, NA, "the prompt is NA"))
    expect_identical(is.na(answers$sentiment), c(FALSE, FALSE, TRUE))
    expect_identical(levels(answers$sentiment), c("positive", "negative"))
    expect_true(all(answers$stars[1:2] %in% 1:5))
    expect_type(answers$person$likes, "logical")
    expect_identical(lengths(answers$words) <= 2, c(TRUE, TRUE, TRUE))
    expect_null(answers$words[[3]])
  }
})

test_that("an instruction names the fields and their descriptions", {
  text <- schema_prompt(review)
  for (word in c(
    "sentiment",
    "How the reviewer liked it.",
    "From 1 to 5.",
    "actors"
  )) {
    expect_match(text, word, fixed = TRUE)
  }
})

test_that("an answer that max_tokens cut is its prompt's error", {
  context <- local_context()
  expect_warning(
    answers <- generate_parallel(
      context,
      "Hi",
      schema = review,
      max_tokens = 3
    ),
    class = "llamaherd_warning_failed"
  )
  expect_true(is.na(answers$stars))
  expect_match(attr(answers, "partial"), "^[{]")
})

test_that("answers match a regular expression", {
  context <- local_context()
  answers <- generate_parallel(
    context,
    reviews[1:2],
    regex = "[0-9]{4}-[0-9]{2}"
  )
  expect_match(plain(answers), "^[0-9]{4}-[0-9]{2}$")
})

test_that("schemas that are none, or cannot be enforced, are named", {
  context <- local_context()
  ask <- \(...) generate_parallel(context, "Hi", ...)
  unique <- '{"type":"array","items":{"type":"integer"},"uniqueItems":true}'
  expect_error(
    ask(schema = unique, strict = TRUE),
    "uniqueItems",
    class = "llamaherd_error_argument"
  )
  expect_error(
    ask(schema = '{"type":"no_such_type"}'),
    class = "llamaherd_error_argument"
  )
  expect_error(
    ask(schema = review, grammar = "root ::= \"a\""),
    class = "llamaherd_error_argument"
  )
  expect_error(ask(regex = "("), class = "llamaherd_error_argument")
})
