"""What the DAGs share. Nothing of the job is imported here, and no Airflow provider unless a setting names it."""
