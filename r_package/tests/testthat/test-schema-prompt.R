test_that("a schema is described for the prompt", {
  local_fake()
  schema <- type_object(a = type_string("An A."))
  expect_identical(
    schema_prompt(schema),
    sprintf("Answer with %s.", check_schema(schema, "schema", 1L, NULL))
  )
  expect_length(schema_prompt(list(schema, "true")), 2)
  expect_identical(schema_prompt(list(schema)), schema_prompt(schema))
  expect_snapshot(error = TRUE, {
    schema_prompt()
    schema_prompt(NULL)
    schema_prompt(5)
    schema_prompt(list(type = "no_such_type"))
  })
})
